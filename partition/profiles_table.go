package partition

// board is a product that has compute partitions: what its driver offers when
// sysfs does not say.
type board struct {
	devices []uint16 // PCI device ids, HF boards included
	vfs     []uint16 // of its virtual functions
	xccs    int
	memory  []MemoryMode // NPS modes of the board
	apu     bool
}

// boards are the partitionable products. A new one is a row here: its
// profiles follow from the number of XCCs and the NPS modes (profiles.go).
// NPS modes marked "by analogy" have not been seen stated for the board.
var boards = [...]board{
	{devices: []uint16{0x74a0}, vfs: []uint16{0x74b4}, xccs: 6, memory: []MemoryMode{"nps1"}, apu: true},              // MI300A, by analogy
	{devices: []uint16{0x74a1, 0x74a9}, vfs: []uint16{0x74b5, 0x74bd}, xccs: 8, memory: []MemoryMode{"nps1", "nps4"}}, // MI300X
	{devices: []uint16{0x74a2, 0x74a8}, vfs: []uint16{0x74b6, 0x74bc}, xccs: 4, memory: []MemoryMode{"nps1", "nps4"}}, // MI308X, by analogy
	{devices: []uint16{0x74a5}, vfs: []uint16{0x74b9}, xccs: 8, memory: []MemoryMode{"nps1"}},                         // MI325X
	{devices: []uint16{0x75a0}, vfs: []uint16{0x75b0}, xccs: 8, memory: []MemoryMode{"nps1", "nps2"}},                 // MI350X, by analogy
	{devices: []uint16{0x75a3}, vfs: []uint16{0x75b3}, xccs: 8, memory: []MemoryMode{"nps1", "nps2"}},                 // MI355X
}

// otherVFs are virtual functions of products without compute partitions.
var otherVFs = [...]uint16{0x686c, 0x738e, 0x73ae, 0x7461}
