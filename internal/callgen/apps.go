package callgen

// A Step is a part of what a service does for a request: the service computes, then calls other
// services, all at about the same time, and waits for their responses.
type Step struct {
	Compute_us float64 // median
	Spread     float64 // standard deviation of the logarithm of the time
	Calls      []Target
}

// A Law says how the times of a service vary around their medians.
type Law int

const (
	LogNormal Law = iota
	Peaks         // one time of five is five times as long
	Shifted       // half of the time is constant, the rest is exponential
	laws      = iota
)

// A Target is a service that a step calls.
type Target struct {
	Service string
	Script  int     // number of the service's script that answers
	Skip    float64 // probability that a cache makes the call unnecessary
	Retry   float64 // probability that the call is repeated
	Async   bool    // nobody waits for the response; it may even come after the reply
}

// A Service has a number of threads, each of which serves one request at a time.
type Service struct {
	Threads int
	Scripts [][]Step
}

// An App is a set of services. Requests from outside go to the service named by Front.
type App struct {
	Front    string
	Services map[string]Service
	Laws     map[string]Law // of the times of a service
	// Clients is true if calls are recorded at both ends. If it is false, they are recorded only by
	// the services that are called.
	Clients    bool
	Quantum_us int64
}

func ask(names ...string) (all []Target) {
	for _, n := range names {
		all = append(all, Target{Service: n})
	}
	return all
}

func leaf(compute_us, spread float64) [][]Step {
	return [][]Step{{{Compute_us: compute_us, Spread: spread}}}
}

// Apps are similar to open benchmarks of microservices, in their structure and in their times.
var Apps = map[string]App{
	// hotel calls one service after the other, in most cases. It has four kinds of requests.
	"hotel": {
		Front: "frontend", Clients: true, Quantum_us: 1,
		Services: map[string]Service{
			"frontend": {64, [][]Step{
				{{350, .5, ask("search")}, {80, .6, ask("reservation")},
					{60, .6, ask("profile")}, {60, .5, nil}},
				{{25, .5, ask("recommendation")}, {15, .5, ask("profile")}, {100, .5, nil}},
				{{30, .5, ask("user")}, {25, .5, ask("reservation")}, {40, .5, nil}},
				{{30, .5, ask("user")}, {40, .5, nil}},
			}},
			"search": {64, [][]Step{{{190, .4, ask("geo")}, {10, .5, ask("rate")},
				{10, .5, nil}}}},
			"geo":            {64, leaf(240, .5)},
			"rate":           {64, leaf(400, .9)},
			"reservation":    {64, leaf(900, 1)},
			"profile":        {64, leaf(500, .9)},
			"recommendation": {64, leaf(150, .5)},
			"user":           {64, leaf(100, .5)},
		},
	},
	// media calls many services at the same time. Each request makes a film review from the parts
	// that these services make.
	"media": {
		Front: "nginx", Quantum_us: 1,
		Services: map[string]Service{
			"nginx": {64, [][]Step{{{150, .5, ask("user", "movie-id", "text", "unique-id")},
				{100, .5, nil}}}},
			"user":      {16, [][]Step{{{600, .5, ask("compose")}, {500, .5, nil}}}},
			"movie-id":  {16, [][]Step{{{900, .5, ask("compose", "rating")}, {300, .5, nil}}}},
			"text":      {16, [][]Step{{{650, .5, ask("compose")}, {200, .5, nil}}}},
			"unique-id": {16, [][]Step{{{550, .5, ask("compose")}, {200, .5, nil}}}},
			"rating": {16, [][]Step{{{900, .6, []Target{{Service: "compose", Script: 1}}},
				{100, .5, nil}}}},
			"compose": {64, [][]Step{{{900, .5, nil}}, {{3500, .5,
				ask("store", "user-review", "movie-review")}, {100, .5, nil}}}},
			"store":        {16, leaf(450, .6)},
			"user-review":  {16, leaf(1300, .5)},
			"movie-review": {16, leaf(1400, .5)},
		},
	},
	// The application called "node" has a coarse clock: it records moments in whole milliseconds.
	"node": {
		Front: "service1", Quantum_us: 1000,
		Services: map[string]Service{
			"service1": {64, [][]Step{{{6000, .4, ask("service2", "service3")}, {900, .5, nil}}}},
			"service2": {64, [][]Step{{{6000, .4, ask("service4")}, {2500, .5, nil}}}},
			"service3": {64, [][]Step{{{9000, .4, ask("service5")}, {2000, .5, nil}}}},
			"service4": {64, leaf(1500, .5)},
			"service5": {64, leaf(1000, .5)},
		},
	},
	// shop has caches, retries, background work, and several calls to one service.
	"shop": {
		Front: "web", Clients: true, Quantum_us: 1,
		Services: map[string]Service{
			"web": {64, [][]Step{
				{{200, .5, ask("auth")}, {150, .5, ask("catalog", "cart")},
					{100, .5, []Target{{Service: "ads", Skip: .5}}}, {300, .5, nil}},
				{{200, .5, ask("auth")}, {120, .5, ask("cart")}, {100, .5, ask("order")},
					{80, .5, []Target{{Service: "mail", Async: true}}}, {100, .5, nil}},
			}},
			"auth": {16, [][]Step{{{100, .5, []Target{{Service: "users", Skip: .7}}},
				{50, .5, nil}}}},
			"catalog": {16, [][]Step{{{200, .5, []Target{{Service: "stock", Retry: .1}}},
				{100, .5, []Target{{Service: "stock", Skip: .3}}}, {100, .5, nil}}}},
			"cart": {16, leaf(600, .8)},
			"order": {16, [][]Step{{{300, .5, ask("stock")}, {200, .5, ask("pay")},
				{100, .5, ask("users")}, {100, .5, nil}}}},
			"ads":   {16, leaf(900, .8)},
			"mail":  {16, leaf(5000, .8)},
			"users": {16, leaf(300, .7)},
			"stock": {16, leaf(700, .7)},
			"pay":   {16, leaf(3000, .6)},
		},
	},
}
