//go:build !linux

package dmem

import (
	"context"
	"errors"
	"time"
)

// notifier does not exist here: waiting polls.
type notifier struct{}

func newNotifier() (*notifier, error) { return nil, errors.ErrUnsupported }

func (*notifier) add(string) error                          { return nil }
func (*notifier) wait(context.Context, time.Duration) error { return errors.ErrUnsupported }
func (*notifier) close()                                    {}
