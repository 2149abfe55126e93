package question

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/cloudprofiler/cloudprofiler/replay/question/wire"
)

// ErrExpression is returned for a condition or a state that cannot be used.
var ErrExpression = errors.New("bad expression")

// Event is what expressions see of an event.
type Event = wire.Event

// variables are what expressions can use, besides states.
var variables = []struct {
	name  string
	of    *cel.Type
	value func(*Event) ref.Val
}{
	{"event.node", cel.StringType, func(e *Event) ref.Val { return types.String(e.Node) }},
	{"event.channel", cel.StringType, func(e *Event) ref.Val { return types.String(e.Channel) }},
	{"event.actor", cel.StringType, func(e *Event) ref.Val { return types.String(e.Actor) }},
	{"event.point", cel.StringType, func(e *Event) ref.Val { return types.String(e.Point) }},
	{"event.handler", cel.StringType, func(e *Event) ref.Val { return types.String(e.Handler) }},
	{"event.id", cel.UintType, func(e *Event) ref.Val { return types.Uint(e.ID) }},
	// The id as a signed number. A program may log any value as an id, such as an amount of money.
	{"event.value", cel.IntType, func(e *Event) ref.Val { return types.Int(int64(e.ID)) }},
}

// maxCost limits what one evaluation of an expression may cost, in CEL's units.
const maxCost = 1_000_000

// Question is a condition over states. One goroutine at a time may use it.
type Question struct {
	find   expression
	states []state
	end    bool // the condition uses end
	// visible says, for each event that was looked at, whether it may change a state or make the
	// condition true.
	visible map[Event]bool
}

// state is a value that events change.
type state struct {
	name   string
	byNode bool // it has a value for each node
	init   ref.Val
	next   expression
}

// expression is a checked expression in two forms: program computes its value, and partial
// evaluates it as far as that is possible without the values of the states.
type expression struct {
	text    string
	env     *cel.Env
	ast     *cel.Ast
	program cel.Program
	partial cel.Program
}

var stateForm = regexp.MustCompile(`^\s*([a-z][a-z0-9_]*)(\s+by\s+node)?\s*=(.*?)\bthen\b(.*)$`)

// Parse checks a condition, and states of the form "NAME = VALUE then NEXT" or "NAME by node =
// VALUE then NEXT". The error wraps ErrExpression, and says where in the expression the mistake is.
func Parse(find string, states []string) (*Question, error) {
	q := &Question{visible: map[Event]bool{}}
	base, err := cel.NewEnv(cel.ExtendedValidations())
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{cel.Variable("end", cel.BoolType)}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.of))
	}
	kinds := make([]*cel.Type, len(states))
	for i, text := range states {
		m := stateForm.FindStringSubmatch(strings.ReplaceAll(text, "\n", " "))
		if m == nil {
			return nil, fmt.Errorf("state %q: give it the form NAME = VALUE then NEXT: %w", text,
				ErrExpression)
		}
		s := state{name: m[1], byNode: m[2] != ""}
		for _, other := range q.states {
			if other.name == s.name {
				return nil, fmt.Errorf("state %q: there are two states %s: %w", text, s.name,
					ErrExpression)
			}
		}
		if s.name == "end" || s.name == "event" {
			return nil, fmt.Errorf("state %q: expressions already have %s: %w", text, s.name,
				ErrExpression)
		}
		init, err := compile(base, m[3], nil)
		if err != nil {
			return nil, fmt.Errorf("state %s: %w", s.name, err)
		}
		if s.init, _, err = init.program.Eval(cel.NoVars()); err != nil {
			return nil, fmt.Errorf("state %s: %q: %v: %w", s.name, m[3], err, ErrExpression)
		}
		kinds[i] = init.ast.OutputType()
		of := kinds[i]
		if s.byNode {
			of = cel.MapType(cel.StringType, of)
		}
		options = append(options, cel.Variable(s.name, of))
		s.next.text = m[4]
		q.states = append(q.states, s)
	}
	env, err := base.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("states: %v: %w", err, ErrExpression)
	}
	for i := range q.states {
		s := &q.states[i]
		if s.next, err = compile(env, s.next.text, kinds[i]); err != nil {
			return nil, fmt.Errorf("state %s: %w", s.name, err)
		}
	}
	q.end = regexp.MustCompile(`\bend\b`).MatchString(find)
	if q.find, err = compile(env, find, cel.BoolType); err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	return q, nil
}

// compile checks an expression. If a type is given, the expression's values must have this type.
func compile(env *cel.Env, text string, of *cel.Type) (x expression, err error) {
	text = strings.TrimSpace(text)
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		var all []string
		for _, e := range issues.Errors() {
			all = append(all, fmt.Sprintf("column %d: %s", e.Location.Column()+1, e.Message))
		}
		return x, fmt.Errorf("%q: %s: %w", text, strings.Join(all, "; "), ErrExpression)
	}
	if of != nil && !ast.OutputType().IsExactType(of) {
		return x, fmt.Errorf("%q: it is of type %s, and must be of type %s: %w", text,
			ast.OutputType(), of, ErrExpression)
	}
	x = expression{text: text, env: env, ast: ast}
	if x.program, err = env.Program(ast, cel.CostLimit(maxCost)); err != nil {
		return x, fmt.Errorf("%q: %v: %w", text, err, ErrExpression)
	}
	x.partial, err = env.Program(ast, cel.CostLimit(maxCost),
		cel.EvalOptions(cel.OptTrackState, cel.OptPartialEval))
	return x, err
}

// values are the variables of one evaluation.
type values struct {
	question *Question
	states   []ref.Val
	event    *Event // nil: before the first event
	end      bool
}

// ResolveName returns a variable's value. Package cel calls it.
func (v *values) ResolveName(name string) (any, bool) {
	for i := range v.question.states {
		if v.question.states[i].name == name {
			return v.states[i], true
		}
	}
	if name == "end" {
		return types.Bool(v.end), true
	}
	event := v.event
	if event == nil {
		event = &Event{}
	}
	for i := range variables {
		if variables[i].name == name {
			return variables[i].value(event), true
		}
	}
	return nil, false
}

// Parent returns nil. Package cel calls it.
func (v *values) Parent() interpreter.Activation { return nil }

// remainingText inserts the values of the event into an expression, and returns what remains. The
// values of the states are not known. If endToo is true, the value of the variable end is not known
// either. Otherwise this value is false.
func (x *expression) remainingText(q *Question, e *Event, endToo bool) (string, error) {
	known := map[string]any{}
	for _, v := range variables {
		known[v.name] = v.value(e)
	}
	var unknown []*interpreter.AttributePattern
	for i := range q.states {
		unknown = append(unknown, cel.AttributePattern(q.states[i].name))
	}
	if endToo {
		unknown = append(unknown, cel.AttributePattern("end"))
	} else {
		known["end"] = types.False
	}
	vars, err := cel.PartialVars(known, unknown...)
	if err != nil {
		return "", err
	}
	value, details, err := x.partial.Eval(vars)
	if err != nil || !types.IsUnknown(value) {
		if err == nil {
			return fmt.Sprint(value.Value()), nil
		}
		return "", nil // an evaluation with states will say what is wrong
	}
	left, err := x.env.ResidualAst(x.ast, details)
	if err != nil {
		return "", nil
	}
	text, err := cel.AstToString(left)
	if err != nil {
		return "", nil
	}
	return text, nil
}
