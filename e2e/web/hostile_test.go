package web

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/inspect/draw/drawtest"
)

// Names and annotations that would run a script where a page took them for
// markup. The API server accepts few of these as names and all as annotations;
// files may hold anything.
func TestHostileNames(t *testing.T) {
	attacks := []string{
		`<script>window.taken=1</script>`, `"><img src=x onerror="window.taken=1">`, `' autofocus onfocus='window.taken=1`,
		`</title></style></script><svg onload="window.taken=1">`, `javascript:window.taken=1`, "\u202e\x1b]0;taken\a",
		strings.Repeat("long", 60),
	}
	nodes, pods, err := drawtest.Cluster(drawtest.Options{Nodes: 2, Planted: true})
	if err != nil {
		t.Fatal(err)
	}
	old := nodes[1].Name
	nodes[1].Name = attacks[1] + attacks[6]
	register := nodes[1].Annotations[annotations.NodeRegisterKey]
	register = strings.ReplaceAll(register, "AMD Instinct MI300X", `AMD <script>window.taken=1</script>`)
	nodes[1].Annotations[annotations.NodeRegisterKey] = strings.ReplaceAll(register, "spx_nps1", `\"><script>window.taken=1</script>`+attacks[6])
	for i, pod := range pods {
		pod.Namespace, pod.Name = attacks[i%len(attacks)], attacks[(i+1)%len(attacks)]+pod.Name
		if pod.Spec.NodeName == old {
			pod.Spec.NodeName = nodes[1].Name
		}
		for k := range pod.Spec.Containers {
			pod.Spec.Containers[k].Name += attacks[(i+k)%len(attacks)]
		}
		if i%7 == 0 {
			pod.Annotations[annotations.AllocatedKey] = attacks[0] + pod.Annotations[annotations.AllocatedKey]
		}
	}
	page := drawPage(t, nodes, pods)
	narrow := newTab(t, phone)
	must(t, narrow.Do(chromedp.Navigate(page.url)))
	fits(t, narrow, "with long names on a phone")
	shoot(t, narrow, "phone-hostile")
	tab := newTab(t, desktop)
	must(t, tab.Do(chromedp.Navigate(page.url)))
	fits(t, tab, "with long names")
	shoot(t, tab, "desktop-hostile")
	// Walk over everything that can be looked at.
	looked := eval[int](t, tab, `[...document.querySelectorAll(".t")].map(b => b.focus()).length`)
	if looked < 40 {
		t.Errorf("%d things to look at, want those of 16 GPUs", looked)
	}
	if eval[bool](t, tab, `"taken" in window`) {
		t.Error("a name has run as a script")
	}
	if got := eval[string](t, tab, `[...document.querySelectorAll("script,img,iframe,object,embed,base,form,link,style")].map(e => e.localName).sort().join()`); got != "form,link,script,style" {
		t.Errorf("the page has %s, want its own form, link, script and style", got)
	}
	if got := eval[int](t, tab, `[...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => /^on|^style$/.test(a.name) && e.id !== "tip")).length`); got != 0 {
		t.Errorf("%d elements have handlers or styles", got)
	}
	if !strings.Contains(eval[string](t, tab, `document.querySelector("main").innerText`), attacks[0]) {
		t.Error("the name is not shown as it is")
	}
}
