package exporter_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// gpu is one GPUState as a test writes it.
type gpu struct {
	ID, UUID, Health, Device string
	Workloads                []string
}

// schema is gpumetricssvc.proto, the messages of List, built at run time: the
// test's server speaks through the protobuf library, which knows nothing of
// the decoder under test.
func schema(tb testing.TB) (response, gpuState protoreflect.MessageDescriptor) {
	tb.Helper()
	str := func(name string, num int32, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(num), Label: label.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
	}
	const one, many = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("metricssvc.proto"), Package: proto.String("metricssvc"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("GPUState"), Field: []*descriptorpb.FieldDescriptorProto{
				str("ID", 1, one), str("UUID", 2, one), str("Health", 3, one), str("AssociatedWorkload", 4, many), str("Device", 5, one),
			}},
			{Name: proto.String("GPUStateResponse"), Field: []*descriptorpb.FieldDescriptorProto{{
				Name: proto.String("GPUState"), Number: proto.Int32(1), Label: many.Enum(),
				Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: proto.String(".metricssvc.GPUState"),
			}}},
		},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return file.Messages().ByName("GPUStateResponse"), file.Messages().ByName("GPUState")
}

// states builds a GPUStateResponse.
func states(tb testing.TB, gpus ...gpu) *dynamicpb.Message {
	tb.Helper()
	response, gpuState := schema(tb)
	out := dynamicpb.NewMessage(response)
	list := out.Mutable(response.Fields().ByName("GPUState")).List()
	for _, g := range gpus {
		m := dynamicpb.NewMessage(gpuState)
		for name, value := range map[protoreflect.Name]string{"ID": g.ID, "UUID": g.UUID, "Health": g.Health, "Device": g.Device} {
			m.Set(gpuState.Fields().ByName(name), protoreflect.ValueOfString(value))
		}
		workloads := m.Mutable(gpuState.Fields().ByName("AssociatedWorkload")).List()
		for _, w := range g.Workloads {
			workloads.Append(protoreflect.ValueOfString(w))
		}
		list.Append(protoreflect.ValueOfMessage(m))
	}
	return out
}

// listFunc answers one List call with a message, or with raw bytes.
type listFunc func(context.Context) (any, error)

// rawBytes is a reply that no protobuf library would write.
type rawBytes []byte

// serve runs a gRPC server with one service on a unix socket and gives the
// socket's path. It ends with the test.
func serve(tb testing.TB, service string, list listFunc) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "exp") // short: a socket path has 107 bytes
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodec(serverCodec{}))
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "List",
			Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				if err := dec(new(emptypb.Empty)); err != nil {
					return nil, err
				}
				return list(ctx)
			},
		}},
	}, struct{}{})
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(lis) }()
	tb.Cleanup(func() { srv.Stop(); <-done })
	return socket
}

// serverCodec is the ordinary protobuf codec that also lets hostile bytes out.
type serverCodec struct{}

func (serverCodec) Name() string { return "proto" }

func (serverCodec) Marshal(v any) ([]byte, error) {
	if raw, ok := v.(rawBytes); ok {
		return raw, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (serverCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}
