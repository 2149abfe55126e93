package answers

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func (r *replayed) printJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// print prints what was found. It also prints possible orders of the events. The argument orders
// limits how many of them it prints.
func (r *replayed) print(w io.Writer, orders int) error {
	out := &strings.Builder{}
	if s := r.Summary; s != nil {
		printFolded(out, "", 2, fmt.Sprintf("run %s: %s, %s, at most %s from the truth",
			r.Run, command.Plural(len(r.history.Nodes), "node"), count(s.Events, "event"),
			r.Reference.Bound(int64(s.Bound_cycles))))
		fmt.Fprintf(out, "free pairs        %s could have happened in either order\n",
			command.Thousands(s.Free))
		fmt.Fprintf(out, "messages          %s needed where times prove no order\n",
			command.Thousands(s.Messages))
		fmt.Fprintf(out, "bounds broken     %s\n", command.Thousands(s.Broken))
	} else {
		fmt.Fprintf(out, "trace %s: %s\n", r.Run, command.Plural(len(r.history.Nodes), "node"))
	}
	what := "all"
	if r.More {
		what = "the first"
	}
	fmt.Fprintf(out, "\nreplayed          %s %s: %s, %s\n", what,
		count(uint64(r.Events), "event"), count(r.Free, "free pair"), r.ordersText())
	if r.Forced != nil {
		fmt.Fprintf(out, "forced            0 free pairs without need; clocks with one epsilon: "+
			"%s\n", command.Thousands(*r.Forced))
	} else {
		fmt.Fprintln(out, "forced            not known how many free pairs, without need")
	}
	if r.Found != nil {
		r.printFound(out)
	}
	if orders > 0 {
		r.printOrders(out, orders)
	}
	_, err := io.WriteString(w, command.Plain(out.String()))
	return err
}

// count returns a number followed by the word for what it counts, such as 3 orders.
func count(n uint64, what string) string {
	if n != 1 {
		what = command.PluralOf(what)
	}
	return command.Thousands(n) + " " + what
}

func (r *replayed) ordersText() string {
	switch {
	case r.Orders == nil:
		return "too many orders to count"
	case r.Orders.IsInt64() && r.Orders.Int64() < 1e15:
		return count(r.Orders.Uint64(), "order")
	}
	return fmt.Sprintf("about %.1e orders", new(big.Float).SetInt(r.Orders))
}

// name returns the text for an event.
func (r *replayed) name(i int) string {
	h := r.history
	e := &h.Events[i]
	return fmt.Sprintf("%-12s %s %d", h.Nodes[e.Node], h.Channels[e.Channel].Name, e.ID)
}

// maxFound is the largest number of events that are printed if an order was found.
const maxFound = 60

// printVerdict says whether there is an order in which the condition holds.
func (r *replayed) printVerdict(out *strings.Builder) {
	s := r.Found
	fmt.Fprintf(out, "condition         %s\n", r.Condition)
	places := fmt.Sprintf("%s of a replay, %s of %s permuted", count(uint64(s.Places), "place"),
		command.Thousands(uint64(s.Visible)), count(uint64(r.Events), "event"))
	switch {
	case !s.Holds && s.Cut:
		fmt.Fprintf(out, "not found         in %s; there are more\n", places)
	case !s.Holds:
		fmt.Fprintf(out, "never holds       in no order (%s)\n", places)
	default:
		fmt.Fprintf(out, "holds             after %s in the shortest order (%s)\n",
			command.Plural(len(s.Order), "event"), places)
	}
}

func (r *replayed) printFound(out *strings.Builder) {
	fmt.Fprintln(out)
	r.printVerdict(out)
	s := r.Found
	if !s.Holds {
		return
	}
	from := max(0, len(s.Order)-maxFound)
	if from > 0 {
		fmt.Fprintf(out, "  … %s before\n", count(uint64(from), "event"))
	}
	for n := from; n < len(s.Order); n++ {
		fmt.Fprintf(out, "%5d  %s", n+1, r.name(s.Order[n]))
		for k, name := range s.States {
			if n == 0 || s.Values[n][k] != s.Values[n-1][k] {
				fmt.Fprintf(out, "   %s = %s", name, s.Values[n][k])
			}
		}
		fmt.Fprintln(out)
	}
}

// printOrders prints all orders. If there are more than the limit most, it prints a random sample
// of them.
func (r *replayed) printOrders(out *strings.Builder, most int) {
	if r.Orders != nil && r.Orders.IsInt64() && r.Orders.Int64() <= int64(most) {
		n := 0
		for order := range r.orders.All() {
			n++
			r.printOrder(out, fmt.Sprintf("order %d of %v", n, r.Orders), order)
		}
		return
	}
	rng := rand.New(rand.NewPCG(1, 1)) // always the same, so that two people see the same orders
	for n := range most {
		order, exact := r.counted.Sample(rng)
		how := "drawn uniformly"
		if !exact {
			how = "drawn by exchanging neighbours: how near to uniform is not known"
		}
		r.printOrder(out, fmt.Sprintf("order %d, %s", n+1, how), order)
	}
}

func (r *replayed) printOrder(out *strings.Builder, title string, order []int) {
	fmt.Fprintf(out, "\n%s\n", title)
	for n, i := range order {
		fmt.Fprintf(out, "%5d  %s\n", n+1, r.name(i))
	}
}
