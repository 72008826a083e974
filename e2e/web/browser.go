package web

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// programs are the names under which distributions install the browser.
var programs = [...]string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// find returns the browser's path.
func find() (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium on PATH: apt-get install chromium")
}

// Browser is a running browser.
type Browser struct {
	ctx  context.Context
	stop []context.CancelFunc
}

// Start runs the browser until Stop. It may run as root, which its sandbox
// does not: it is to open pages of our own making only.
func Start(ctx context.Context) (*Browser, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("headless", "new"),
		chromedp.Flag("hide-scrollbars", false),
	)
	allocated, stopAllocator := chromedp.NewExecAllocator(ctx, options...)
	browser, stopBrowser := chromedp.NewContext(allocated)
	b := &Browser{browser, []context.CancelFunc{stopBrowser, stopAllocator}}
	if err := chromedp.Do(browser); err != nil {
		b.Stop()
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return b, nil
}

// Stop ends the browser.
func (b *Browser) Stop() {
	for _, stop := range b.stop {
		stop()
	}
}

// A Screen is what a page is shown on.
type Screen struct {
	Width, Height int64
	Dark          bool
	Phone         bool // a touch screen of two pixels for each of the page's
}

// A Tab is one page. Context is for chromedp.Run and chromedp.Do.
type Tab struct {
	Context context.Context
	stop    context.CancelFunc

	mu sync.Mutex // guards what follows
	// complaints are exceptions, errors on the console and in the browser's log.
	complaints []string
	// requests are the addresses that have been asked for, the page's included.
	requests []string
}

// Tab opens an empty page.
func (b *Browser) Tab(s Screen) (*Tab, error) {
	ctx, stop := chromedp.NewContext(b.ctx)
	t := &Tab{Context: ctx, stop: stop}
	if err := t.open(s); err != nil {
		stop()
		return nil, fmt.Errorf("opening a tab: %w", err)
	}
	return t, nil
}

func (t *Tab) open(s Screen) error {
	if err := chromedp.Listen(t.Context, t.listen); err != nil {
		return err
	}
	scheme, hover, pointer, scale := "light", "hover", "fine", 1.0
	if s.Dark {
		scheme = "dark"
	}
	if s.Phone {
		hover, pointer, scale = "none", "coarse", 2
	}
	_, err := chromedp.Call(t.Context, log.Enable, cdp.Empty{})
	if err == nil {
		_, err = chromedp.Call(t.Context, network.Enable, network.EnableParams{})
	}
	if err == nil {
		_, err = chromedp.Call(t.Context, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: s.Width, Height: s.Height, DeviceScaleFactor: scale, Mobile: s.Phone})
	}
	if err == nil {
		_, err = chromedp.Call(t.Context, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: s.Phone})
	}
	if err == nil {
		_, err = chromedp.Call(t.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "hover", Value: hover}, {Name: "pointer", Value: pointer},
		}})
	}
	return err
}

func (t *Tab) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	complain := func(format string, args ...any) { t.complaints = append(t.complaints, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complain("exception: %s in line %d", e.ExceptionDetails.Text, e.ExceptionDetails.LineNumber)
		if e.ExceptionDetails.Exception != nil {
			complain("%s", e.ExceptionDetails.Exception.Description)
		}
	case *runtime.EventConsoleAPICalled:
		complain("console: %s", e.Type)
	case *log.EventEntryAdded:
		complain("log: %s: %s", e.Entry.Level, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "data:") {
			t.requests = append(t.requests, e.Request.URL)
		}
	}
}

// Heard are the complaints and the requests so far.
func (t *Tab) Heard() (complaints, requests []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.complaints), slices.Clone(t.requests)
}

// Close ends the page.
func (t *Tab) Close() { t.stop() }
