package generator

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"
)

// A Decoder makes an object of a serialised tuple. Several goroutines call it at once. It may not
// keep the body.
type Decoder[T any] func(body []byte) (T, error)

// JSON decodes with encoding/json.
func JSON[T any]() Decoder[T] {
	return func(body []byte) (v T, err error) {
		err = json.Unmarshal(body, &v)
		return v, err
	}
}

// Protobuf decodes messages of a generated type: Protobuf[pb.Event]() makes *pb.Event.
func Protobuf[T any, M interface {
	*T
	proto.Message
}]() Decoder[M] {
	return func(body []byte) (M, error) {
		v := M(new(T))
		return v, proto.Unmarshal(body, v)
	}
}
