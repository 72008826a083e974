package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// detailsOf is what the details say, "" if there are none.
const detailsOf = `(e => e.hidden || !e.checkVisibility() ? "" : e.innerText)(document.getElementById("tip"))`

// center is where an element is on the screen, scrolled into view.
func center(t *testing.T, tab *Tab, element string) (x, y float64) {
	t.Helper()
	at := eval[[]float64](t, tab, fmt.Sprintf(`(() => { const e = %s; e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`, element))
	return at[0], at[1]
}

// expect checks what the details say.
func expect(t *testing.T, tab *Tab, when string, words ...string) {
	t.Helper()
	got := eval[string](t, tab, detailsOf)
	if len(words) == 0 && got != "" {
		t.Errorf("%s: details %q, want none", when, got)
	}
	for _, word := range words {
		if !strings.Contains(got, word) {
			t.Errorf("%s: details %q, want %q in them", when, got, word)
		}
	}
}

func TestPointer(t *testing.T) {
	page := drawSample(t, 2)
	tab := newTab(t, desktop)
	must(t, tab.Do(chromedp.Navigate(page.url)))
	tenant := page.cluster.Nodes[0].GPUs[1].Tenants[0]
	row := fmt.Sprintf(`[...document.querySelectorAll("#n0g1 tbody .t")].find(b => b.textContent === %q)`, tenant.Namespace+"/"+tenant.Pod)
	words := []string{tenant.Namespace + "/" + tenant.Pod, tenant.Container, fmt.Sprintf("%d of 304, %d effective", tenant.CUs, tenant.Effective), tenant.Mask.String(), "Running"}

	x, y := center(t, tab, row)
	must(t, tab.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y)))
	expect(t, tab, "pointing at the row", words...)
	shoot(t, tab, "desktop-hover")
	must(t, tab.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 2, 2)))
	expect(t, tab, "pointing elsewhere")

	// Its CUs on the map: the first of the path's rectangles is on XCC 0.
	index := eval[int](t, tab, `[...document.querySelectorAll("#n0g1 tbody .t")].indexOf(`+row+`)`)
	path := fmt.Sprintf(`document.querySelector("#n0g1 .map path[data-t='%d']")`, index)
	center(t, tab, path)
	at := eval[[]float64](t, tab, `(() => { const p = `+path+`, b = p.getBBox(), m = p.getScreenCTM(), d = p.getAttribute("d").match(/^M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)/).map(Number);
		const at = new DOMPoint(d[1] + d[3] / 2, d[2] + d[4] / 2).matrixTransform(m); return [at.x, at.y]; })()`)
	must(t, tab.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1])))
	expect(t, tab, "pointing at the map", words...)
	if !eval[bool](t, tab, path+`.classList.contains("on") && `+row+`.closest("tr").classList.contains("on")`) {
		t.Error("map and row are not marked")
	}

	// A click keeps them, another one lets go.
	must(t, tab.Do(chromedp.MouseClickXY(at[0], at[1]), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 2, 2)))
	expect(t, tab, "after a click", words...)
	must(t, tab.Do(chromedp.MouseClickXY(2, 2)))
	expect(t, tab, "after a click elsewhere")

	x, y = center(t, tab, `document.querySelector("#n0g1 h3 .t")`)
	must(t, tab.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y)))
	expect(t, tab, "pointing at the GPU", "GPU 1", "AMD Instinct MI300X", "0000:27:00.0", "7 peers")
}

func TestKeyboard(t *testing.T) {
	tab := newTab(t, desktop)
	must(t, tab.Do(chromedp.Navigate(drawSample(t, 2).url)))
	must(t, tab.Do(chromedp.KeyEvent("/")))
	if !eval[bool](t, tab, `document.activeElement.id === "filter" && hint.checkVisibility()`) {
		t.Error("/ does not lead to the filter and its hint")
	}
	// The filter's last answer is in the next frame, and takes the details away.
	eval[bool](t, tab, `filter.value = "", document.querySelector("#n0 > summary").focus(), true`)
	must(t, tab.Frame())
	focused := `document.activeElement.className + " " + document.activeElement.textContent`
	must(t, tab.Do(chromedp.KeyEvent(kb.Tab)))
	if got := eval[string](t, tab, focused); got != "t GPU 0" {
		t.Fatalf("Tab leads from the node to %q, want its first GPU", got)
	}
	expect(t, tab, "with the focus on a GPU", "GPU 0", "PCI address")
	must(t, tab.Do(chromedp.KeyEvent(kb.Tab)))
	name := eval[string](t, tab, `document.activeElement.textContent`)
	expect(t, tab, "with the focus on a tenant", name, "Container")
	if !eval[bool](t, tab, `document.getElementById(document.activeElement.getAttribute("aria-describedby")).getAttribute("role") === "tooltip"`) {
		t.Error("the details are not tied to what has the focus")
	}
	if !eval[bool](t, tab, `getComputedStyle(document.activeElement).outlineStyle === "solid"`) {
		t.Error("the focus is not to be seen")
	}
	must(t, tab.Do(chromedp.KeyEvent(kb.ArrowDown)))
	next := eval[string](t, tab, `document.activeElement.textContent`)
	expect(t, tab, "one further down", next)
	must(t, tab.Do(chromedp.KeyEvent(kb.ArrowUp)))
	if got := eval[string](t, tab, `document.activeElement.textContent`); got != name || next == name {
		t.Errorf("arrows lead to %q and back to %q", next, got)
	}
	must(t, tab.Do(chromedp.KeyEvent(kb.Escape)))
	expect(t, tab, "after Escape")
	eval[bool](t, tab, `document.querySelector("#n0 > summary").focus(), true`)
	must(t, tab.Do(chromedp.KeyEvent(kb.Enter)))
	if eval[bool](t, tab, `document.getElementById("n0").open`) {
		t.Error("Enter does not fold the node")
	}
}

func TestTouch(t *testing.T) {
	tab := newTab(t, phone)
	must(t, tab.Do(chromedp.Navigate(drawSample(t, 2).url)))
	x, y := center(t, tab, `document.querySelectorAll("#n0g1 tbody .t")[1]`)
	must(t, tab.Do(chromedp.TapXY(x, y)))
	must(t, tab.Frame())
	name := eval[string](t, tab, `document.querySelectorAll("#n0g1 tbody .t")[1].textContent`)
	expect(t, tab, "after a tap", name, "VRAM")
	shoot(t, tab, "phone-tap")
	inside := `(r => r.left >= 0 && r.right <= innerWidth && r.bottom <= innerHeight && r.top > 0)(document.getElementById("tip").getBoundingClientRect())`
	if !eval[bool](t, tab, inside) {
		t.Error("the details are not all on the screen")
	}
	if !eval[bool](t, tab, `document.querySelectorAll("#n0g1 tbody tr")[1].getBoundingClientRect().bottom <= document.getElementById("tip").getBoundingClientRect().top`) {
		t.Error("the details cover what they are of")
	}
	x, y = centerOf(t, tab, `document.querySelector("#tip button")`)
	must(t, tab.Do(chromedp.TapXY(x, y)))
	must(t, tab.Frame())
	expect(t, tab, "after a tap on close")
}

// centerOf is center without scrolling.
func centerOf(t *testing.T, tab *Tab, element string) (x, y float64) {
	t.Helper()
	at := eval[[]float64](t, tab, `(r => [r.left + r.width / 2, r.top + r.height / 2])(`+element+`.getBoundingClientRect())`)
	return at[0], at[1]
}

func TestPrint(t *testing.T) {
	tab := newTab(t, desktop)
	must(t, tab.Do(chromedp.Navigate(drawSample(t, 2).url)))
	must(t, tab.Emulate(emulation.SetEmulatedMediaParams{Media: "print"}))
	if eval[bool](t, tab, `bar.checkVisibility()`) {
		t.Error("the filter is on paper")
	}
	if got := eval[string](t, tab, `getComputedStyle(document.querySelector(".card")).contentVisibility`); got != "visible" {
		t.Errorf("content-visibility %q on paper: what is below the screen would be missing", got)
	}
}

// Without scripts everything but the filter and the details is there.
func TestWithoutScripts(t *testing.T) {
	tab := newTab(t, desktop)
	must(t, tab.WithoutScripts())
	must(t, tab.Do(chromedp.Navigate(drawSample(t, 2).url)))
	if got := eval[int](t, tab, `[...document.querySelectorAll(".card")].filter(c => c.checkVisibility()).length`); got != 16 {
		t.Errorf("%d GPUs, want 16", got)
	}
	if eval[bool](t, tab, `bar.checkVisibility()`) {
		t.Error("there is a filter that does nothing")
	}
}
