package exporter

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a reply. A node has at most 64 partitions; the exporter lists
// each at most once, so a reply beyond these is not one of the exporter's.
const (
	maxReplyBytes = 1 << 20
	maxStates     = 1024
	maxText       = 256
)

// Field numbers of gpumetricssvc.proto. GPUState.ID, the exporter's own index,
// and GPUState.AssociatedWorkload are not used here.
const (
	fieldStates = 1 // GPUStateResponse.GPUState

	fieldUUID   = 2 // GPUState.UUID
	fieldHealth = 3 // GPUState.Health
	fieldDevice = 5 // GPUState.Device
)

// state is one GPUState of a reply, the members that matter.
type state struct {
	uuid, health, device string
}

// errWire marks a reply that is no GPUStateResponse.
var errWire = errors.New("malformed GPUStateResponse")

// parseStates decodes a GPUStateResponse. Unknown fields are skipped, as
// protobuf asks; a known field of another wire type, text that is not UTF-8 or
// longer than any real one, and more states than a node can have refuse the
// whole reply, since nothing in it can be trusted then.
func parseStates(b []byte) ([]state, error) {
	var states []state
	err := eachField(b, func(num protowire.Number, typ protowire.Type, value []byte) error {
		if num != fieldStates {
			return nil
		}
		if typ != protowire.BytesType {
			return fmt.Errorf("%w: field %d has wire type %d, want %d", errWire, num, typ, protowire.BytesType)
		}
		if len(states) == maxStates {
			return fmt.Errorf("%w: more than %d GPU states", errWire, maxStates)
		}
		s, err := parseState(value)
		if err != nil {
			return fmt.Errorf("GPU state %d: %w", len(states), err)
		}
		states = append(states, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

func parseState(b []byte) (state, error) {
	var s state
	err := eachField(b, func(num protowire.Number, typ protowire.Type, value []byte) error {
		var into *string
		switch num {
		case fieldUUID:
			into = &s.uuid
		case fieldHealth:
			into = &s.health
		case fieldDevice:
			into = &s.device
		default:
			return nil
		}
		switch {
		case typ != protowire.BytesType:
			return fmt.Errorf("%w: field %d has wire type %d, want %d", errWire, num, typ, protowire.BytesType)
		case len(value) > maxText:
			return fmt.Errorf("%w: field %d has %d bytes, want at most %d", errWire, num, len(value), maxText)
		case !utf8.Valid(value):
			return fmt.Errorf("%w: field %d is not UTF-8", errWire, num)
		}
		*into = string(value) // the last one wins, as protobuf says
		return nil
	})
	return s, err
}

// eachField walks the fields of a message. value is the content of a
// length-delimited field and nil for every other wire type.
func eachField(b []byte, fn func(protowire.Number, protowire.Type, []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: tag: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errWire, num, protowire.ParseError(n))
		}
		var value []byte
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		if err := fn(num, typ, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// codec carries the two messages of List over gRPC: an Empty, which has no
// bytes, and the undecoded reply, which the caller parses so that a bad reply
// is told apart from a failed call. It calls itself proto because that is what
// travels.
type codec struct{}

var _ encoding.Codec = codec{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	if _, ok := v.(empty); !ok {
		return nil, fmt.Errorf("encoding %T: want an empty request", v)
	}
	return nil, nil
}

func (codec) Unmarshal(data []byte, v any) error {
	into, ok := v.(*reply)
	if !ok {
		return fmt.Errorf("decoding into %T: want a reply", v)
	}
	into.body = append([]byte(nil), data...)
	return nil
}

// empty is google.protobuf.Empty; reply is an undecoded message.
type (
	empty struct{}
	reply struct{ body []byte }
)
