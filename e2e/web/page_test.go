package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// The page is quiet, fits and follows the reader's choice on every screen.
func TestScreens(t *testing.T) {
	page := drawSample(t, 4)
	for name, screen := range map[string]Screen{
		"desktop-light": desktop, "desktop-dark": inTheDark(desktop), "phone-light": phone, "phone-dark": inTheDark(phone),
	} {
		t.Run(name, func(t *testing.T) {
			tab := newTab(t, screen)
			must(t, tab.Do(chromedp.Navigate(page.url)))
			must(t, tab.Frame())
			fits(t, tab, "as it opens")
			shoot(t, tab, name)
			background := eval[string](t, tab, `getComputedStyle(document.body).backgroundColor`)
			want := "rgb(246, 248, 250)"
			if screen.Dark {
				want = "rgb(13, 17, 23)"
			}
			if background != want {
				t.Errorf("background %s, want %s", background, want)
			}
			eval[bool](t, tab, `document.querySelector(".cards").scrollIntoView(), true`)
			must(t, tab.Frame())
			shoot(t, tab, name+"-gpus")
			eval[bool](t, tab, `document.querySelector("tr.bad .t").focus(), true`)
			must(t, tab.Frame())
			fits(t, tab, "with details")
			shoot(t, tab, name+"-details")
			if small := eval[string](t, tab, `[...document.querySelectorAll(".map, .card table, .strip")].filter(e => {
				const r = e.getBoundingClientRect(); return r.width > 0 && (r.left < 0 || r.right > innerWidth) }).map(e => e.className.baseVal || e.tagName).join()`); small != "" {
				t.Errorf("beyond the screen: %s", small)
			}
		})
	}
}

// fits checks that nothing makes the page wider than the screen.
func fits(t *testing.T, tab *Tab, when string) {
	t.Helper()
	if wide := eval[string](t, tab, `document.documentElement.scrollWidth + " of " + document.documentElement.clientWidth`); !same(wide) {
		t.Errorf("%s: the page is %s pixels wide", when, wide)
	}
}

func same(s string) bool {
	a, b, _ := strings.Cut(s, " of ")
	return a == b
}

// gpus are the names of the GPUs whose tenants, node or device pass.
func (p drawn) gpus(pass func(*inspect.Node, *inspect.GPU) bool) []string {
	found := map[string]bool{}
	for _, n := range p.cluster.Nodes {
		for _, g := range n.GPUs {
			if pass(n, g) {
				found[n.Name+" "+g.Physical] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func tenant(pass func(*inspect.Tenant) bool) func(*inspect.Node, *inspect.GPU) bool {
	return func(_ *inspect.Node, g *inspect.GPU) bool { return slices.ContainsFunc(g.Tenants, pass) }
}

// visible are the GPUs that are to be seen, by node and PCI address.
const visible = `[...document.querySelectorAll(".card")].filter(c => c.checkVisibility()).map(c =>
	c.closest(".node").querySelector("h2").textContent + " " + c.dataset.q.match(/^pci:(.*)$/m)[1]).sort()`

func TestFilter(t *testing.T) {
	page := drawSample(t, 20) // more nodes than start unfolded
	tab := newTab(t, desktop)
	must(t, tab.Do(chromedp.Navigate(page.url)))
	if got := eval[[]string](t, tab, visible); len(got) != 0 {
		t.Errorf("%d GPUs are unfolded at first, want none of 160", len(got))
	}
	any := page.cluster.Nodes[3].GPUs[5].Tenants[0]
	for _, tc := range []struct {
		name, words string
		want        []string
	}{
		{"a namespace", "ns:search", page.gpus(tenant(func(t *inspect.Tenant) bool { return t.Namespace == "search" }))},
		{"a pod", any.Pod, page.gpus(tenant(func(t *inspect.Tenant) bool { return t.Pod == any.Pod }))},
		{"upper case", strings.ToUpper(any.Pod), page.gpus(tenant(func(t *inspect.Tenant) bool { return t.Pod == any.Pod }))},
		{"a node", "mi355x-03", page.gpus(func(n *inspect.Node, _ *inspect.GPU) bool { return n.Name == "mi355x-03" })},
		{"a GPU type", "type:mi355x", page.gpus(func(_ *inspect.Node, g *inspect.GPU) bool { return strings.Contains(g.Device.Type, "MI355X") })},
		{"a mode", "profile:qpx", page.gpus(func(_ *inspect.Node, g *inspect.GPU) bool { return g.Device.Mode == "qpx" })},
		{"two words", "ns:llm  type:mi355x", page.gpus(func(n *inspect.Node, g *inspect.GPU) bool {
			return strings.Contains(g.Device.Type, "MI355X") && slices.ContainsFunc(partsOf(n, g), holds("llm"))
		})},
		{"a kind of problem", "code:maskoverlap", page.gpus(func(_ *inspect.Node, g *inspect.GPU) bool { return has(g, "MaskOverlap") })},
		{"nothing", "no-such-thing", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			typeIn(t, tab, tc.words)
			must(t, tab.Frame())
			if diff := cmp.Diff(tc.want, eval[[]string](t, tab, visible), emptyIsNil); diff != "" {
				t.Errorf("GPUs (-want +shown):\n%s", diff)
			}
			if got, want := eval[string](t, tab, `document.getElementById("shown").value`), fmt.Sprintf("%d of 160 GPUs", len(tc.want)); got != want {
				t.Errorf("says %q, want %q", got, want)
			}
			if strings.HasPrefix(tc.name, "a pod") {
				if got := eval[[]string](t, tab, `[...new Set([...document.querySelectorAll(".card:not([hidden]) tr.hit .t")].map(e => e.textContent))]`); !slices.Equal(got, []string{any.Namespace + "/" + any.Pod}) {
					t.Errorf("marks %.300q, want the pod alone", got)
				}
				shoot(t, tab, "filter-pod")
			}
			must(t, tab.Do(chromedp.KeyEvent(kb.Escape)))
			must(t, tab.Frame())
			if got := eval[[]string](t, tab, visible); len(got) != 0 {
				t.Errorf("%d GPUs are still unfolded after Escape", len(got))
			}
		})
	}
	t.Run("problems only", func(t *testing.T) {
		must(t, tab.Do(chromedp.Click("#bad")))
		must(t, tab.Frame())
		want := page.gpus(func(_ *inspect.Node, g *inspect.GPU) bool { return has(g, "") })
		if diff := cmp.Diff(want, eval[[]string](t, tab, visible), emptyIsNil); diff != "" || len(want) == 0 {
			t.Errorf("GPUs (-want +shown):\n%s", diff)
		}
		shoot(t, tab, "problems-only")
	})
	t.Run("a link to a GPU that is hidden", func(t *testing.T) {
		typeIn(t, tab, "no-such-thing")
		must(t, tab.Frame())
		hash := eval[string](t, tab, `document.querySelector(".all a").hash`)
		eval[bool](t, tab, `location.hash = `+fmt.Sprintf("%q", hash)+`, true`)
		must(t, tab.Frame())
		if !eval[bool](t, tab, `document.querySelector(location.hash).checkVisibility() && document.activeElement.id === location.hash.slice(1)`) {
			t.Error("it is not brought to light")
		}
	})
}

// typeIn types words into the filter.
func typeIn(t *testing.T, tab *Tab, words string) {
	t.Helper()
	eval[bool](t, tab, `filter.focus(), true`)
	must(t, tab.Do(chromedp.KeyEvent(words)))
}

// emptyIsNil takes no GPU for no GPU.
var emptyIsNil = cmpopts.EquateEmpty()

// partsOf are the devices of the GPU that g is a part of.
func partsOf(n *inspect.Node, g *inspect.GPU) []*inspect.GPU {
	return slices.DeleteFunc(slices.Clone(n.GPUs), func(other *inspect.GPU) bool { return other.Physical != g.Physical })
}

func holds(namespace string) func(*inspect.GPU) bool {
	return func(g *inspect.GPU) bool {
		return slices.ContainsFunc(g.Tenants, func(t *inspect.Tenant) bool { return t.Namespace == namespace })
	}
}

// has tells whether a device or a tenant of it has a problem of a kind, or any.
func has(g *inspect.GPU, code inspect.Code) bool {
	is := func(p inspect.Problem) bool { return code == "" || p.Code == code }
	return slices.ContainsFunc(g.Problems, is) ||
		slices.ContainsFunc(g.Tenants, func(t *inspect.Tenant) bool { return slices.ContainsFunc(t.Problems, is) })
}
