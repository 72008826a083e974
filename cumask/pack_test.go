package cumask

import (
	"errors"
	"testing"
)

func TestPackIdleMI300X(t *testing.T) {
	g := Geometry{CUs: 304, XCCs: 8}
	s, err := Pack(g, Set{}, 76)
	if err != nil || s != Range(0, 75) {
		t.Fatalf("Pack = %q, %v; want 0-75", s, err)
	}
	var row Set
	for i := 0; i < 304; i += 8 {
		row = row.Union(Of(i))
	}
	if _, err := Pack(g, g.All().Minus(row), 8); !errors.Is(err, ErrInsufficient) {
		t.Fatalf("Pack from one XCC = %v; want ErrInsufficient", err)
	}
	sets, err := PackAll(g, Set{}, []int{76, 38})
	if err != nil || sets[0] != Range(0, 75) || sets[1] != Range(76, 113) {
		t.Fatalf("PackAll = %v, %v; want 0-75 and 76-113", sets, err)
	}
}
