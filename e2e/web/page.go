package web

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// patience is how long anything on a page may take, on a busy machine too.
const patience = 15 * time.Second

// Eval evaluates an expression on the page.
func Eval[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.Context, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		return v, fmt.Errorf("evaluating %.80q: %w", expression, err)
	}
	return v, nil
}

// Do does things on the page.
func (t *Tab) Do(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(t.Context, patience)
	defer cancel()
	return chromedp.Do(ctx, steps...)
}

// Frame waits until the browser has painted what has happened so far.
func (t *Tab) Frame() error {
	_, err := Eval[bool](t, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	return err
}

// Screenshot is the visible part of the page as PNG.
func (t *Tab) Screenshot() ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}

// Emulate sets the medium, "print" or "screen".
func (t *Tab) Emulate(media emulation.SetEmulatedMediaParams) error {
	_, err := chromedp.Call(t.Context, emulation.SetEmulatedMedia, media)
	return err
}

// WithoutScripts switches the scripts of pages off. Eval goes on working.
func (t *Tab) WithoutScripts() error {
	_, err := chromedp.Call(t.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
}
