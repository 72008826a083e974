package hamitest

import (
	"flag"
	"io"

	"k8s.io/klog/v2"
)

// Silence sends klog's output nowhere: HAMi logs each step at the default level.
func Silence() error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(io.Discard)
	return nil
}
