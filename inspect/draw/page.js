
(() => {
  "use strict";
  const $ = id => document.getElementById(id);
  const bar = $("bar"), filter = $("filter"), bad = $("bad"), fold = $("fold"), shown = $("shown"), tip = $("tip");
  const item = e => ({e, q: e.dataset.q, bad: "bad" in e.dataset});
  const nodes = [...document.querySelectorAll(".node")].map(e =>
    ({...item(e), cards: [...e.querySelectorAll(".card")].map(item), open: e.open}));
  const problems = [...document.querySelectorAll(".all > .problems > li")].map(item);
  const total = nodes.reduce((n, node) => n + node.cards.length, 0);
  const number = n => n.toLocaleString("en") + (n === 1 ? " GPU" : " GPUs");

  // The tenants a word is about, to be found quickly among the others of a GPU.
  const tenants = card => card.tenants ||= [...card.e.querySelectorAll("tbody tr[data-p]")].map(e => {
    const name = e.querySelector(".t").textContent.toLowerCase(), at = name.indexOf("/");
    return {e, ns: name.slice(0, at), pod: name.slice(at + 1), container: e.querySelector("small").textContent.toLowerCase()};
  });
  const about = (t, word) => {
    const [, what, rest] = word.match(/^(ns|pod|container):(.*)$/) || [];
    return what ? t[what].startsWith(rest) : (t.ns + "/" + t.pod).includes(word);
  };
  const mark = (card, words) => {
    if (!words.length && !card.tenants) return;
    for (const t of tenants(card)) t.e.classList.toggle("hit", words.some(w => about(t, w)));
  };

  // Filter: every word has to be somewhere in what a GPU is found by.
  let filtered = false;
  const set = (e, hidden) => { if (e.hidden !== hidden) e.hidden = hidden; };
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const match = i => words.every(w => i.q.includes(w));
    const active = words.length > 0 || bad.checked;
    if (active && !filtered) nodes.forEach(n => { n.open = n.e.open; });
    let count = 0;
    for (const n of nodes) {
      let any = (!bad.checked || n.bad) && match(n);
      for (const c of n.cards) {
        const show = (!bad.checked || c.bad) && match(c);
        set(c.e, !show);
        if (show) { any = true; count++; mark(c, words); }
      }
      set(n.e, !any);
      if (active && any && !n.e.open) n.e.open = true;
      if (!active && filtered) n.e.open = n.open;
    }
    for (const p of problems) set(p.e, !match(p));
    filtered = active;
    shown.value = active ? count.toLocaleString("en") + " of " + number(total) : number(total);
    hide();
  };
  let due = 0;
  const soon = () => { cancelAnimationFrame(due); due = requestAnimationFrame(apply); };
  filter.addEventListener("input", soon);
  bad.addEventListener("change", soon);
  bar.addEventListener("submit", e => e.preventDefault());
  const label = () => { fold.textContent = nodes.some(n => n.e.open) ? "Fold all" : "Unfold all"; };
  fold.addEventListener("click", () => {
    const open = !nodes.some(n => n.e.open);
    for (const n of nodes) n.e.open = open;
    label();
  });
  document.addEventListener("toggle", label, true);

  // Details: what a button's data-d says, and all of the same pod marked.
  const sheet = matchMedia("(max-width: 640px), (pointer: coarse)");
  let subject = null, near = null, pinned = false, marked = [];
  const add = (parent, tag, text, name) => {
    const e = parent.appendChild(document.createElement(tag));
    e.textContent = text;
    if (name) e.className = name;
    return e;
  };
  const pin = on => { pinned = on; tip.classList.toggle("pinned", on); };
  const hide = () => {
    if (!subject) return;
    subject.removeAttribute("aria-describedby");
    for (const e of marked) e.classList.remove("on");
    subject = null; marked = [];
    pin(false);
    tip.hidden = true;
  };
  const place = () => {
    const at = near.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const below = at.bottom + 6, above = at.top - box.height - 6;
    const top = below + box.height < innerHeight || above < 0 ? below : above;
    tip.style.left = Math.max(8, Math.min(at.left + 24, innerWidth - box.width - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(top, innerHeight - box.height - 4)) + "px";
  };
  const show = (button, at) => {
    if (subject === button) return;
    hide();
    subject = button;
    near = at || button;
    tip.replaceChildren();
    add(tip, "b", button.textContent);
    const list = add(tip, "dl", "");
    for (const line of button.dataset.d.split("\n")) {
      const at = line.indexOf("\t");
      const name = line.startsWith("!") ? "bad" : "";
      add(list, "dt", line.slice(0, at), name);
      add(list, "dd", line.slice(at + 1), name);
    }
    const close = add(tip, "button", "×");
    close.type = "button";
    close.setAttribute("aria-label", "Close");
    const row = button.closest("tr");
    if (row) {
      marked = [...document.querySelectorAll('[data-p="' + row.dataset.p + '"]')];
      for (const e of marked) e.classList.add("on");
    }
    button.setAttribute("aria-describedby", "tip");
    tip.hidden = false;
    place();
  };
  // At the foot of a small screen the details must not cover what they are of.
  const clear = button => {
    const over = button.closest("tr, header").getBoundingClientRect().bottom - tip.getBoundingClientRect().top;
    if (sheet.matches && over > -8) scrollBy(0, over + 8);
  };
  // What a pointer or the focus is on: a row, a GPU's name or a tenant's CUs.
  const buttonOf = e => {
    const path = e.closest("[data-t]");
    if (path) return path.closest(".card").querySelectorAll("tbody .t")[path.dataset.t];
    const row = e.closest("tbody tr[data-p]");
    return row ? row.querySelector(".t") : e.closest(".t");
  };
  const main = document.querySelector("main");
  main.addEventListener("pointerover", e => {
    if (e.pointerType === "touch" || pinned) return;
    const b = buttonOf(e.target);
    if (b) show(b, e.target); else hide();
  });
  main.addEventListener("pointerleave", () => { if (!pinned) hide(); });
  main.addEventListener("focusin", e => { const b = e.target.closest(".t"); if (b && b !== subject) { show(b); clear(b); } });
  main.addEventListener("focusout", () => { if (!pinned) hide(); });
  document.addEventListener("click", e => {
    if (tip.contains(e.target)) { if (e.target.closest("button")) hide(); return; }
    const b = buttonOf(e.target);
    if (!b) { hide(); return; }
    const again = subject === b && pinned;
    hide();
    if (!again) { show(b, e.target); pin(true); clear(b); }
  });
  addEventListener("scroll", () => { if (subject) place(); }, {passive: true});

  document.addEventListener("keydown", e => {
    if (e.key === "Escape") { if (subject) hide(); else if (filter.value) { filter.value = ""; apply(); } return; }
    if (e.key === "/" && e.target !== filter) { e.preventDefault(); filter.focus(); return; }
    if ((e.key === "ArrowDown" || e.key === "ArrowUp") && e.target.classList.contains("t")) {
      const all = [...main.querySelectorAll(".node[open]:not([hidden]) .card:not([hidden]) .t")];
      const next = all[all.indexOf(e.target) + (e.key === "ArrowDown" ? 1 : -1)];
      if (next) { e.preventDefault(); next.focus(); }
    }
  });

  // A link to a GPU brings it to light, whatever hides it.
  const reveal = () => {
    const target = location.hash.length > 1 && $(location.hash.slice(1));
    if (!target || !main.contains(target)) return;
    if (target.closest("[hidden]")) { filter.value = ""; bad.checked = false; apply(); }
    const node = target.closest(".node");
    if (node) node.open = true;
    target.scrollIntoView({block: "start"});
    target.focus({preventScroll: true});
  };
  addEventListener("hashchange", reveal);
  main.addEventListener("click", e => { const a = e.target.closest("a[href^='#']"); if (a && a.hash === location.hash) reveal(); });
  addEventListener("beforeprint", () => { for (const n of nodes) { n.print = n.e.open; n.e.open = true; } });
  addEventListener("afterprint", () => { for (const n of nodes) n.e.open = n.print; });

  const all = document.querySelector(".all");
  if (all && innerWidth < 640) all.open = false;
  bar.hidden = false;
  apply();
  label();
  reveal();
})();
