package exporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// DefaultSocket is where the exporter listens when its health service is on.
// A container needs the folder mounted, not the socket: the exporter makes a
// new one at each start.
const DefaultSocket = "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket"

// DefaultTimeout bounds one call of List.
const DefaultTimeout = 5 * time.Second

// ErrNoVerdict is returned when the exporter gave no answer that can be used:
// no socket, no service, an error, a timeout, or a reply that is not one of
// its. It says nothing about the GPUs.
var ErrNoVerdict = errors.New("no verdict from the metrics exporter")

// Health is what the exporter says of one GPU.
type Health string

// The verdicts. Unknown is the zero value: a GPU that is not in the reply, or
// whose health is a word other than the two below.
const (
	Unknown   Health = ""
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy"
)

// Options are the options of List; the zero value asks the exporter in its
// usual place.
type Options struct {
	// Socket is the path of the exporter's unix socket, DefaultSocket if "".
	Socket string
	// Timeout bounds the call, DefaultTimeout if 0 or less.
	Timeout time.Duration
}

// The names of the List method, in the order they are tried. The exporter's
// GPU server registers the first; its sources also hold the second.
var methods = [...]string{
	"/metricssvc.MetricsService/List",
	"/gpumetricssvc.MetricsService/List",
}

// List asks the exporter once for the health of all GPUs. The connection lives
// for this call only, because the exporter comes and goes on its own.
//
// Every error wraps ErrNoVerdict, and the context's error where that is the
// cause.
func List(ctx context.Context, opts Options) (Verdicts, error) {
	v, err := list(ctx, opts)
	if err != nil {
		return Verdicts{}, fmt.Errorf("%w: %w", ErrNoVerdict, err)
	}
	return v, nil
}

func list(ctx context.Context, opts Options) (Verdicts, error) {
	socket, timeout := opts.Socket, opts.Timeout
	if socket == "" {
		socket = DefaultSocket
	}
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	// Most nodes have no exporter, and gRPC has a lot to say about that.
	if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) {
		return Verdicts{}, fmt.Errorf("it is not installed or has not started: no socket %q", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	// The dialer makes the path reach the kernel as it is; gRPC's own unix
	// scheme would parse it as a URL. passthrough keeps name resolution and
	// proxies out of it.
	conn, err := grpc.NewClient("passthrough:///exporter",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxReplyBytes)),
	)
	if err != nil {
		return Verdicts{}, fmt.Errorf("client for %q: %w", socket, err)
	}
	defer conn.Close()

	var last error
	for _, method := range methods {
		var r reply
		err := conn.Invoke(ctx, method, empty{}, &r)
		if err == nil {
			states, err := parseStates(r.body)
			if err != nil {
				return Verdicts{}, fmt.Errorf("calling %s on %q: %w", method, socket, err)
			}
			return newVerdicts(states), nil
		}
		last = callError(ctx, method, socket, err)
		if status.Code(err) != codes.Unimplemented {
			break
		}
	}
	return Verdicts{}, last
}

// callError makes one line of a failed call, and lets errors.Is find the
// context's error, which a gRPC status hides.
func callError(ctx context.Context, method, socket string, err error) error {
	s := status.Convert(err)
	message := oneLine(s.Message())
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("calling %s on %q: %s: %w", method, socket, message, cause)
	}
	return fmt.Errorf("calling %s on %q: %s: %s", method, socket, s.Code(), message)
}

// oneLine bounds text that a server chose, and keeps it on one line of a log.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "..."
	}
	return s
}
