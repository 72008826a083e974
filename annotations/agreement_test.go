package annotations

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A jsonWriter writes device lists that are mostly correct, with every kind of
// slip now and then. A fuzzer that changes bytes seldom gets as far.
type jsonWriter struct {
	r *rand.Rand
	b strings.Builder
}

func (w *jsonWriter) pick(words ...string) { w.b.WriteString(words[w.r.IntN(len(words))]) }

// seldom is true one time in n.
func (w *jsonWriter) seldom(n int) bool { return w.r.IntN(n) == 0 }

func (w *jsonWriter) list(open, end string, n int, element func(i int)) {
	w.b.WriteString(open)
	for i := range n {
		if i > 0 {
			w.pick(",", ",", ",", " , ", ",\n")
		}
		element(i)
	}
	if w.seldom(60) {
		w.pick(",", "}", "]", "x", "")
	}
	w.b.WriteString(end)
}

func (w *jsonWriter) text() {
	w.pick(`"A"`, `"B"`, `""`, `"AMD X"`, `"a b"`, `"\u0041"`, `"é™"`, `"\ud83d\ude00"`, `"0000:83:00.0"`, `"x\\y\"z\n"`, `"\u2028<>&"`)
}

func (w *jsonWriter) number() {
	w.pick("0", "1", "2", "8", "38", "304", "196288", "2147483647")
	if w.seldom(40) {
		w.pick("0", "00000000000", ".0", ".5", "e0", "E+2", "e-1", "e999", "x")
	}
}

func (w *jsonWriter) value(depth int) {
	switch n := w.r.IntN(10); {
	case n < 3:
		w.text()
	case n < 6:
		w.number()
	case n < 8 || depth > 3:
		w.pick("true", "false", "null", "-1", "-0", "1.5e3", "-2.5")
	case n < 9:
		w.list("[", "]", w.r.IntN(3), func(int) { w.value(depth + 1) })
	default:
		w.list("{", "}", w.r.IntN(3), func(i int) {
			fmt.Fprintf(&w.b, `"k%d":`, i*w.r.IntN(2))
			w.value(depth + 1)
		})
	}
}

// member writes one that is usually of the right type.
func (w *jsonWriter) member(name string, right func()) {
	if w.seldom(60) {
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	fmt.Fprintf(&w.b, `"%s"`, name)
	w.pick(":", ":", " : ")
	if w.seldom(40) {
		right = func() { w.value(0) }
	}
	right()
}

func (w *jsonWriter) device(i int) {
	id := func() { fmt.Fprintf(&w.b, `"GPU-%d"`, i-w.r.IntN(30)/29) }
	boolean := func() { w.pick("true", "false") }
	w.list("{", "}", 1+w.r.IntN(9), func(m int) {
		switch name := []string{"id", "devmem", "count", "devcore", "type", "numa", "mode", "health", "index"}[m]; name {
		case "id":
			w.member(name, id)
		case "type", "mode":
			w.member(name, w.text)
		case "health":
			w.member(name, boolean)
		default:
			w.member(name, w.number)
		}
		if w.seldom(4) {
			fmt.Fprintf(&w.b, `,"future%d":`, m-w.r.IntN(2))
			w.value(0)
		}
		if m == 3 {
			w.b.WriteString(",")
			w.member("custominfo", w.customInfo)
		}
	})
}

func (w *jsonWriter) customInfo() {
	names := []string{"pciBDF", "numXCC", "xgmiPeers", "partitionProfiles", "cuPerWGP", "partitionProfile", "computeQueues", "lanes"}
	w.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	w.list("{", "}", w.r.IntN(len(names)), func(m int) {
		switch name := names[m]; name {
		case "pciBDF", "partitionProfile":
			w.member(name, w.text)
		case "xgmiPeers":
			w.member(name, func() { w.list("[", "]", w.r.IntN(4), func(int) { w.text() }) })
		case "partitionProfiles":
			w.member(name, func() { w.list("[", "]", w.r.IntN(3), func(int) { w.profile() }) })
		case "lanes":
			w.member(name, func() { w.value(0) })
		default:
			w.member(name, w.number)
		}
	})
}

func (w *jsonWriter) profile() {
	names := []string{"ProfileIndex", "Type", "MemoryCaps", "NumPartitions", "XCCPerPartition", "future"}
	w.list("{", "}", w.r.IntN(len(names)+1), func(m int) {
		switch name := names[m]; name {
		case "Type", "MemoryCaps":
			w.member(name, w.text)
		case "future":
			w.member(name, func() { w.value(0) })
		default:
			w.member(name, w.number)
		}
	})
}

func TestDecodeDevicesAgreesWithEncodingJSON(t *testing.T) {
	accepted := 0
	const rounds = 6000
	for seed := range uint64(rounds) {
		w := jsonWriter{r: rand.New(rand.NewPCG(seed, 7))}
		w.list("[", "]", w.r.IntN(4), w.device)
		s := w.b.String()
		checkAgainstJSON(t, s)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		if devices, err := DecodeDevices(s); err == nil && len(devices) > 0 {
			accepted++
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d lists were accepted: the writer no longer makes both kinds", accepted, rounds)
	}
}

func TestDevicesAreReadAsTheyWereWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		var want []Device
		for i := range 1 + r.IntN(8) {
			d := mi300x(i)
			d.Type = strings.Repeat("T™\n", r.IntN(4))
			d.Index, d.Devmem, d.Numa = uint(r.Int32N(9)), r.Int32(), r.IntN(4)-1
			d.Health, d.Mode = r.IntN(2) == 0, strings.Repeat("\\", r.IntN(2))
			if r.IntN(2) == 0 {
				d.CustomInfo = CustomInfo{CUsPerWGP: r.IntN(3)}
			}
			for m := range r.IntN(3) {
				d.Unknown = append(d.Unknown, Member{fmt.Sprintf("m<%d>", m), `{"a":[1, 2]}`})
			}
			want = append(want, d)
		}
		value, err := EncodeDevices(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeDevices(value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-written +read):\n%s", value, diff)
		}
	}
}
