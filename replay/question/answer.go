package question

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/replay"
	"github.com/cloudprofiler/cloudprofiler/replay/question/wire"
)

// Answer reads a request and writes the response.
func Answer(ctx context.Context, from io.Reader, to io.Writer) error {
	var r wire.Request
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return fmt.Errorf("read question: %w", err)
	}
	if r.Version != wire.Version {
		return fmt.Errorf("read question: version %d: this program knows version %d: install "+
			"cprof and cprof-question of the same release", r.Version, wire.Version)
	}
	response, err := answer(ctx, &r)
	if errors.Is(err, ErrExpression) {
		response, err = &wire.Response{Bad: err.Error()}, nil
	}
	if err != nil {
		return err
	}
	response.Version = wire.Version
	if err := json.NewEncoder(to).Encode(response); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

func answer(ctx context.Context, r *wire.Request) (*wire.Response, error) {
	q, err := Parse(r.Find, r.States)
	if err != nil || len(r.Events) == 0 {
		return &wire.Response{}, err
	}
	if err := check(r); err != nil {
		return nil, err
	}
	place, last := make([]int32, len(r.Events)), map[int]int32{}
	for i, lane := range r.Lanes {
		place[i] = last[lane]
		last[lane]++
	}
	o := replay.NewOrders(r.Lanes, func(i, j int) bool {
		return r.Need[j][r.Lanes[i]] > place[i]
	})
	f, err := q.Search(ctx, r.Events, o)
	if err != nil {
		return nil, err
	}
	response := &wire.Response{Order: f.Order, Holds: f.Holds, Places: f.Places, Cut: f.Cut,
		Visible: f.Visible}
	response.States, response.Values, err = q.States(r.Events, f.Order)
	return response, err
}

// check refuses requests that cprof never makes.
func check(r *wire.Request) error {
	bad := len(r.Lanes) != len(r.Events) || len(r.Need) != len(r.Events)
	for i := range r.Need {
		bad = bad || r.Lanes[i] < 0 || r.Lanes[i] >= len(r.Need[i]) ||
			len(r.Need[i]) != len(r.Need[0])
	}
	if bad {
		return fmt.Errorf("read question: %d events, with %d nodes and %d orders that do not fit",
			len(r.Events), len(r.Lanes), len(r.Need))
	}
	return nil
}
