package channel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrParameter is returned when a handler's parameter is unknown, missing or out of its range.
var ErrParameter = errors.New("bad handler parameter")

// Params are a handler's parameters by name, as a program or a YAML file gives them. They are
// numbers, or strings such as "64Ki", "10KB" and, for periods, "500ms".
type Params map[string]any

// Settings are a handler and its parameters, which have been checked. The zero value is the null
// handler.
//
// Settings from shared memory or from a file must pass Validate before they are used.
type Settings struct {
	Kind Kind

	// A and B are the parameters, as in shared memory and in files:
	//
	//	downsample   A = n, at least 1
	//	xoy          A = x, B = y; y at least 1, x at most y
	//	counter      A = period in ns, at least a millisecond
	//	all others   both 0
	A, B uint64
}

// These are the default and the shortest period of the handler counter. If counting channels have
// the same period, the drainer reads all of their counts at nearly the same instant.
const (
	DefaultPeriod_ns = uint64(time.Second)
	MinPeriod_ns     = uint64(time.Millisecond)
)

type parameter struct {
	name     string
	parse    func(any) (uint64, error)
	fallback uint64
	required bool
}

// parameters lists the parameters of each kind: first the one in Settings.A, then the one in
// Settings.B.
var parameters = [kinds][]parameter{
	Counter:    {{name: "period", parse: parsePeriod, fallback: DefaultPeriod_ns}},
	Downsample: {{name: "n", parse: ParseCount, required: true}},
	XoY: {
		{name: "x", parse: ParseCount, required: true},
		{name: "y", parse: ParseCount, required: true},
	},
}

// NewSettings checks a handler's name and parameters. Errors wrap ErrHandler or ErrParameter.
func NewSettings(handler string, params Params) (Settings, error) {
	kind, err := ParseKind(handler)
	if err != nil {
		return Settings{}, err
	}
	s := Settings{Kind: kind}
	takes := parameters[kind]
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.ContainsFunc(takes, func(p parameter) bool { return p.name == name }) {
			return Settings{}, fmt.Errorf("handler %s: parameter %q is not one of its own: it "+
				"takes %s: %w", kind, name, parameterNames(takes), ErrParameter)
		}
	}
	for i, p := range takes {
		value := p.fallback
		given, ok := params[p.name]
		switch {
		case ok:
			if value, err = p.parse(given); err != nil {
				return Settings{}, fmt.Errorf("handler %s: parameter %s: %w", kind, p.name, err)
			}
		case p.required:
			return Settings{}, fmt.Errorf("handler %s: parameter %q is missing: it takes %s: %w",
				kind, p.name, parameterNames(takes), ErrParameter)
		}
		*[]*uint64{&s.A, &s.B}[i] = value
	}
	return s, s.Validate()
}

func parameterNames(takes []parameter) string {
	if len(takes) == 0 {
		return "none"
	}
	var names []string
	for _, p := range takes {
		names = append(names, p.name)
	}
	return strings.Join(names, " and ")
}

// Validate returns nil if the settings are valid. Errors wrap ErrHandler or ErrParameter.
func (s Settings) Validate() error {
	if !s.Kind.Known() {
		return fmt.Errorf("check handler number %d: this version knows 0 to %d: %w",
			uint8(s.Kind), kinds-1, ErrHandler)
	}
	switch s.Kind {
	case Downsample:
		if s.A == 0 {
			return fmt.Errorf("handler downsample: n = 0: keep every n-th event with n of 1 "+
				"or more: %w", ErrParameter)
		}
	case XoY:
		if s.B == 0 {
			return fmt.Errorf("handler xoy: y = 0: keep x of every y ids with y of 1 or more: %w",
				ErrParameter)
		}
		if s.A > s.B {
			return fmt.Errorf("handler xoy: x = %d is above y = %d: keep x of every y ids: %w",
				s.A, s.B, ErrParameter)
		}
	case Counter:
		if s.A < MinPeriod_ns || s.A > 1<<62 {
			return fmt.Errorf("handler counter: period %d ns: use a period from 1ms up: %w",
				s.A, ErrParameter)
		}
	}
	if len(parameters[s.Kind]) < 2 && s.B != 0 || len(parameters[s.Kind]) < 1 && s.A != 0 {
		return fmt.Errorf("handler %s: parameters %d and %d: it takes %s: %w",
			s.Kind, s.A, s.B, parameterNames(parameters[s.Kind]), ErrParameter)
	}
	return nil
}

// Parameter is the name of a handler's parameter, and its value as text.
type Parameter struct{ Name, Text string }

// Params lists the parameters in the order of A and B, in a form that NewSettings can read.
func (s Settings) Params() []Parameter {
	if !s.Kind.Known() {
		return nil
	}
	var params []Parameter
	for i, p := range parameters[s.Kind] {
		value := [...]uint64{s.A, s.B}[i]
		text := strconv.FormatUint(value, 10)
		if p.name == "period" {
			text = time.Duration(value).String()
		}
		params = append(params, Parameter{p.name, text})
	}
	return params
}

// String returns the handler and its parameters, such as "xoy x=2 y=1024".
func (s Settings) String() string {
	text := s.Kind.String()
	for _, p := range s.Params() {
		text += " " + p.Name + "=" + p.Text
	}
	return text
}
