package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// A request is sent at most maxTries times. The first pause between two sends is firstPause,
	// and each further pause is twice as long.
	maxTries   = 6
	firstPause = time.Second
	// longestPause is the longest pause that a receiver may ask for.
	longestPause   = 5 * time.Minute
	requestTimeout = 30 * time.Second
)

// ErrRefused is returned if a receiver took requests, but not all of their spans.
var ErrRefused = errors.New("the receiver refused spans")

// Endpoint is a receiver of OTLP over HTTP. Only one goroutine may use it.
type Endpoint struct {
	ctx     context.Context
	url     *url.URL
	client  *http.Client
	told    func(what string)
	wait    func(context.Context, time.Duration) error
	reached bool // the receiver has answered
	taken   int  // requests with spans that the receiver took

	refused int64
	reason  string // why the first spans were refused
}

// NewEndpoint sends an empty request to a receiver, so that a wrong address is found at once. An
// address without a path gets /v1/traces. The last parameter is called before each pause.
func NewEndpoint(ctx context.Context, address string, told func(what string)) (*Endpoint, error) {
	e, err := newEndpoint(ctx, address, told)
	if err != nil {
		return nil, err
	}
	if err := e.Send([]byte(`{"resourceSpans":[]}`)); err != nil {
		e.client.CloseIdleConnections()
		return nil, err
	}
	e.taken = 0
	return e, nil
}

func newEndpoint(ctx context.Context, address string, told func(string)) (*Endpoint, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("send spans to %q: give an address such as "+
			"http://collector:4318/v1/traces", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return &Endpoint{
		ctx: ctx, url: u, told: told, wait: waitPause,
		client: &http.Client{
			Timeout: requestTimeout, Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// If the client followed a redirect of a POST, it might send a GET instead.
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}, nil
}

// waitPause waits.
func waitPause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Send sends a request. It tries again in the two cases that OTLP's specification allows: the
// receiver is busy (429, 502, 503, 504), or it answered an earlier request but does not answer now.
func (e *Endpoint) Send(request []byte) error {
	next := firstPause
	for n := 1; ; n++ {
		asked, err := e.trySend(request)
		if err == nil {
			e.taken++
			return nil
		}
		var busy busyError
		switch {
		case !errors.As(err, &busy):
			return fmt.Errorf("send spans to %s: %w", e.url.Redacted(), err)
		case asked > longestPause:
			return fmt.Errorf("send spans to %s: %w; it asks for a pause of %v: send the run "+
				"again then", e.url.Redacted(), err, asked.Round(time.Second))
		case n == maxTries:
			return fmt.Errorf("send spans to %s: %w, %d times; it took %d earlier requests: send "+
				"the run again later; its spans will have the same ids", e.url.Redacted(), err, n,
				e.taken)
		}
		wait := cmp.Or(asked, next+rand.N(next/4)) // so that several senders do not send at once
		e.told(fmt.Sprintf("%v; again in %v", err, wait.Round(time.Second)))
		if err := e.wait(e.ctx, wait); err != nil {
			return fmt.Errorf("send spans to %s: %w", e.url.Redacted(), err)
		}
		next *= 2
	}
}

// busyError is an error after which the same request may succeed.
type busyError struct{ error }

func (b busyError) Unwrap() error { return b.error }

// trySend sends a request once. asked is the pause that the receiver asks for, or 0.
func (e *Endpoint) trySend(request []byte) (asked time.Duration, err error) {
	r, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.url.String(),
		bytes.NewReader(request))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(r)
	if err != nil {
		if stopped := context.Cause(e.ctx); stopped != nil {
			return 0, stopped
		}
		var failed *url.Error
		if errors.As(err, &failed) { // the text of err would repeat the address
			err = failed.Err
			if failed.Timeout() {
				err = fmt.Errorf("no answer within %v", e.client.Timeout)
			}
		}
		// The answer of a server that speaks only HTTP/2, such as a server of gRPC, causes an error
		// that begins like this.
		const settings = `malformed HTTP response "\x00\x00`
		switch text := err.Error(); {
		case strings.Contains(text, settings):
			return 0, errors.New("a server of gRPC is running there: give the receiver's address " +
				"for HTTP; its port is most often 4318")
		case strings.Contains(text, "server gave HTTP response to HTTPS client"):
			return 0, errors.New("the receiver has no TLS: give an address with http://")
		case !e.reached:
			return 0, fmt.Errorf("%w: is an OTLP receiver with HTTP running there?", err)
		}
		return 0, busyError{err}
	}
	defer answer.Body.Close()
	e.reached = true
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return 0, busyError{err}
	}
	switch answer.StatusCode {
	case http.StatusOK:
		e.countRefused(body)
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return retryAfter(answer.Header.Get("Retry-After")),
			busyError{describeFailure(answer, body)}
	}
	return 0, describeFailure(answer, body)
}

// describeFailure describes an answer that is not OK.
func describeFailure(answer *http.Response, body []byte) error {
	text := "it answered " + answer.Status
	var status struct{ Message string } // google.rpc.Status
	if err := json.Unmarshal(body, &status); err != nil {
		status.Message = strings.Join(strings.Fields(string(body)), " ")
	}
	if status.Message != "" {
		text += fmt.Sprintf(": %.200q", status.Message)
	}
	switch {
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusMethodNotAllowed:
		text += ": its path for traces is another one; most receivers have /v1/traces"
	case answer.Header.Get("Location") != "":
		text += fmt.Sprintf(": give the address %.200q instead", answer.Header.Get("Location"))
	}
	return errors.New(text)
}

// retryAfter reads the header Retry-After: seconds or a date. It returns 0 if the header says
// nothing.
func retryAfter(text string) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// countRefused notes how many spans were refused, according to a successful answer.
func (e *Endpoint) countRefused(body []byte) {
	var answer struct {
		PartialSuccess struct {
			RejectedSpans json.Number
			ErrorMessage  string
		}
	}
	if json.Unmarshal(body, &answer) != nil {
		return // an empty answer is a full success
	}
	n, err := answer.PartialSuccess.RejectedSpans.Int64()
	if err != nil || n <= 0 {
		return
	}
	if e.refused == 0 {
		e.reason = answer.PartialSuccess.ErrorMessage
	}
	e.refused += n
}

// Close ends the connections. The error wraps ErrRefused if the receiver refused any spans.
func (e *Endpoint) Close() error {
	e.client.CloseIdleConnections()
	if e.refused == 0 {
		return nil
	}
	return fmt.Errorf("send spans to %s: %d of them were refused: %.200q: %w", e.url.Redacted(),
		e.refused, e.reason, ErrRefused)
}
