package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// passiveOperator does nothing before the first tuple, and nothing at a watermark. Most operators
// are passive in this way.
type passiveOperator struct{}

func (passiveOperator) prepare(context.Context) error                             { return nil }
func (passiveOperator) advance(int64, func(out *message, key uint64) error) error { return nil }

// Indices of the fields of a tuple, by the operator that made the tuple: deserialise, project, join
// or count.
const (
	fieldAd, fieldEventType, fieldEventTime = 2, 4, 5
	projectedAd, projectedTime              = 0, 1
	joinedCampaign, joinedTime              = 0, 1
	countedCampaign, countedBegin           = 0, 1
	countedCount                            = 2
)

var errTuple = errors.New("not a tuple for this operator")

// checkFields returns an error if the tuple has a different number of fields.
func checkFields(in *message, fields int) error {
	if len(in.fields) != fields {
		return fmt.Errorf("%d fields, want %d: %w", len(in.fields), fields, errTuple)
	}
	return nil
}

// deserialise splits the event's JSON into fields.
type deserialise struct {
	passiveOperator
	out message
}

func (d *deserialise) work(_ context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 1); err != nil {
		return nil, 0, err
	}
	var e struct {
		User    string `json:"user_id"`
		Page    string `json:"page_id"`
		Ad      string `json:"ad_id"`
		AdType  string `json:"ad_type"`
		Type    string `json:"event_type"`
		Time    string `json:"event_time"`
		Address string `json:"ip_address"`
	}
	if err := json.Unmarshal([]byte(in.fields[0]), &e); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errTuple, err)
	}
	d.out.id = in.id
	d.out.fields = append(d.out.fields[:0],
		e.User, e.Page, e.Ad, e.AdType, e.Type, e.Time, e.Address)
	return &d.out, in.id, nil
}

// filter lets only views pass.
type filter struct{ passiveOperator }

func (filter) work(_ context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 7); err != nil {
		return nil, 0, err
	}
	if in.fields[fieldEventType] != eventTypes[0] {
		return nil, 0, nil
	}
	return in, in.id, nil
}

// project keeps the fields that are needed from here on.
type project struct {
	passiveOperator
	out message
}

func (p *project) work(_ context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 7); err != nil {
		return nil, 0, err
	}
	p.out.id = in.id
	p.out.fields = append(p.out.fields[:0], in.fields[fieldAd], in.fields[fieldEventTime])
	return &p.out, in.id, nil
}

// join finds the campaign of an ad. It asks the cluster's key-value store when it first sees the
// ad, and remembers the answer.
type join struct {
	passiveOperator
	stream *Stream
	table  func(ctx context.Context) (jetstream.KeyValue, error)
	loads  bool // this instance fills the table

	kv        jetstream.KeyValue
	campaigns map[string]string // by ad
	out       message
}

// tableName is the bucket with the campaign of each ad.
const tableName = "campaigns"

// loadedKey is written last: a table that contains it is complete.
const loadedKey = "loaded"

func (j *join) prepare(ctx context.Context) (err error) {
	j.campaigns = map[string]string{}
	if j.kv, err = j.table(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("%d ads each of %d campaigns", j.stream.AdsPerCampaign, j.stream.Campaigns)
	for {
		entry, err := j.kv.Get(ctx, loadedKey)
		if err == nil && string(entry.Value()) == what {
			return nil
		}
		if j.loads {
			return j.load(ctx, what)
		}
		select { // another instance fills the table
		case <-ctx.Done():
			return fmt.Errorf("wait for table %q: %w", tableName, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// load fills the table. It writes several entries at a time, because the cluster takes long to
// agree on each.
func (j *join) load(ctx context.Context, what string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ads := make(chan int)
	var loaders sync.WaitGroup
	for range 16 {
		loaders.Go(func() {
			for ad := range ads {
				if err := j.putEntry(ctx, adName(ad), j.stream.campaignOf(ad)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for ad := 0; ad < j.stream.Campaigns*j.stream.AdsPerCampaign && ctx.Err() == nil; ad++ {
		ads <- ad
	}
	close(ads)
	loaders.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return j.putEntry(ctx, loadedKey, what)
}

// putEntry writes an entry of the table. It tries until ctx ends, because the cluster accepts no
// entry until it has agreed on a leader.
func (j *join) putEntry(ctx context.Context, key, value string) error {
	for {
		_, err := j.kv.PutString(ctx, key, value)
		if err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			return fmt.Errorf("fill table %q: %w", tableName, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("fill table %q: %w: %w", tableName, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (j *join) work(ctx context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 2); err != nil {
		return nil, 0, err
	}
	ad := in.fields[projectedAd]
	campaign, known := j.campaigns[ad]
	if !known {
		entry, err := j.kv.Get(ctx, ad)
		if err != nil {
			return nil, 0, fmt.Errorf("look up ad %q: %w", ad, err)
		}
		campaign = string(entry.Value())
		j.campaigns[ad] = campaign
	}
	j.out.id, j.out.fields = in.id, append(j.out.fields[:0], campaign, in.fields[projectedTime])
	hash := fnv.New64a()
	hash.Write([]byte(campaign))
	return &j.out, hash.Sum64(), nil
}

// store writes counts into the key-value store.
type store struct {
	passiveOperator
	table func(ctx context.Context) (jetstream.KeyValue, error)
	kv    jetstream.KeyValue
}

func (s *store) prepare(ctx context.Context) (err error) {
	s.kv, err = s.table(ctx)
	return err
}

func (s *store) work(ctx context.Context, in *message) (*message, uint64, error) {
	if err := checkFields(in, 3); err != nil {
		return nil, 0, err
	}
	if _, err := strconv.Atoi(in.fields[countedCount]); err != nil {
		return nil, 0, fmt.Errorf("count %q: %w", in.fields[countedCount], errTuple)
	}
	// Create, unlike Put, fails for a window that was stored before.
	key := in.fields[countedCampaign] + "." + in.fields[countedBegin]
	if _, err := s.kv.Create(ctx, key, []byte(in.fields[countedCount])); err != nil {
		return nil, 0, fmt.Errorf("store count %q: %w", key, err)
	}
	return nil, 0, nil
}
