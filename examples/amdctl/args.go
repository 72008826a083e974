package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/Project-HAMi/hami-amd/amd"
)

// noArguments refuses what stands behind a subcommand.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: want no argument, found %.80q (see %s -h)", cmd.Name(), args[0], cmd.CommandPath())
	}
	return nil
}

// wantArguments wants as many as there are names for them.
func wantArguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%s: want %s, found %s (see %s -h)", cmd.Name(), strings.Join(names, " and "), count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}

// flagError says what a number is instead of naming the parser of Go.
func flagError(_ *cobra.Command, err error) error {
	number, ok := errors.AsType[*strconv.NumError](err)
	if !ok {
		return err
	}
	want := "want a whole number"
	switch {
	case errors.Is(number.Err, strconv.ErrRange):
		want = "the number is too large or too small"
	case number.Func == "ParseFloat":
		want = "want a number"
	case number.Func == "ParseBool":
		want = "want true or false"
	case number.Func == "ParseUint":
		want = "want a whole number of 0 or more"
	}
	text, _, _ := strings.Cut(err.Error(), "strconv.")
	return errors.New(text + want)
}

// policy is the value of a flag with a scheduler's policy.
type policy struct {
	value *string
	key   string // of the annotation with the same words
}

func (p policy) String() string {
	if p.value == nil { // pflag asks the zero value
		return ""
	}
	return *p.value
}

func (p policy) Type() string { return "policy" }

func (p policy) Set(s string) error {
	if err := amd.CheckPolicy(p.key, s); err != nil {
		return err
	}
	*p.value = s
	return nil
}
