package collector

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/report/export"
)

// freeAddress is an address of this machine at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	return port.Addr().String()
}

// startReceiver starts the collector's receiver, which listens for HTTP and for gRPC. It returns a
// function that stops the receiver.
func startReceiver(t *testing.T, http, grpc string, to consumer.Traces) (stop func()) {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": map[string]any{"endpoint": http},
		"grpc": map[string]any{"endpoint": grpc}}}).Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()),
		config, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := receiver.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// takingConsumer returns a consumer that calls the function take for each request that has spans.
func takingConsumer(t *testing.T, take func(context.Context, ptrace.Traces) error) consumer.Traces {
	t.Helper()
	c, err := consumer.NewTraces(func(ctx context.Context, traces ptrace.Traces) error {
		if traces.SpanCount() == 0 {
			return nil
		}
		return take(ctx, traces)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A collector is busy, then dies, and is started again. Nevertheless it gets each span once.
func TestCollectorFailsForAWhile(t *testing.T) {
	dir, address, other := forkedRun(t), freeAddress(t), freeAddress(t)
	sink := new(consumertest.TracesSink)
	requests := 0
	var stop func()
	consumes := takingConsumer(t, func(ctx context.Context, traces ptrace.Traces) error {
		if requests++; requests == 1 {
			return errors.New("the queue is full")
		}
		return sink.ConsumeTraces(ctx, traces)
	})
	stop = startReceiver(t, address, other, consumes)
	var told []string
	endpoint, err := export.NewEndpoint(t.Context(), "http://"+address, func(what string) {
		if told = append(told, what); len(told) == 2 {
			stop = startReceiver(t, address, other, consumes)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	_, answer, err := export.OTLP(t.Context(), dir, analysis.Options{Reference: "B"},
		func(request []byte) error {
			if sent++; sent == 2 {
				stop()
			}
			return endpoint.Send(request)
		})
	if err := errors.Join(err, endpoint.Close()); err != nil {
		t.Fatal(err)
	}
	stop()
	if len(told) != 2 ||
		!strings.Contains(told[0], `503 Service Unavailable: "the queue is full"`) ||
		!strings.Contains(told[1], "again in") || sent < 2 {
		t.Errorf("%d requests: it tells %q", sent, told)
	}
	holdAgainstAnalysis(t, dir, answer.Reference, sink.AllTraces())
}

// Each error says what to do.
func TestCollectorRefuses(t *testing.T) {
	dir, address, grpc := forkedRun(t), freeAddress(t), freeAddress(t)
	defer startReceiver(t, address, grpc, takingConsumer(t,
		func(context.Context, ptrace.Traces) error {
			return consumererror.NewPermanent(errors.New("not allowed"))
		}))()
	partly := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := ptraceotlp.NewExportResponse()
		answer.PartialSuccess().SetRejectedSpans(3)
		answer.PartialSuccess().SetErrorMessage("too old")
		text, err := answer.MarshalJSON()
		if err != nil {
			t.Error(err)
		}
		w.Write(text)
	}))
	defer partly.Close()
	for to, want := range map[string]string{
		"http://" + address: `export run "run": send spans to http://` + address +
			`/v1/traces: it answered 500 Internal Server Error: "Permanent error: not allowed"`,
		"http://" + address + "/v1/logs": "most receivers have /v1/traces",
		"http://" + grpc: "a server of gRPC is running there: give the receiver's address for " +
			"HTTP",
		"https://" + address:       "the receiver has no TLS: give an address with http://",
		"http://" + freeAddress(t): "is an OTLP receiver with HTTP running there?",
		partly.URL:                 `were refused: "too old"`,
	} {
		endpoint, err := export.NewEndpoint(t.Context(), to, func(what string) {
			t.Errorf("%s: it waits: %s", to, what)
		})
		if err == nil {
			_, _, err = export.OTLP(t.Context(), dir, analysis.Options{Reference: "B"},
				endpoint.Send)
			err = errors.Join(err, endpoint.Close())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: it says %v, want %q", to, err, want)
		}
	}
}
