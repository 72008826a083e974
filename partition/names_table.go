package partition

// anyRevision is the revision of a name that holds for the device id alone.
const anyRevision = -1

// productNames are the names of current parts, for hosts without product_name
// and amdgpu.ids. To add one, put its device id and market name here, with the
// revision where one device id has several products, and with the number of
// CUs where even the revision does not tell.
//
// The ids are those of AMD's public driver and of libdrm's amdgpu.ids.
var productNames = [...]struct {
	device   uint16
	revision int
	cus      int // 0: any
	name     string
}{
	{0x6860, anyRevision, 0, "AMD Radeon Instinct MI25"},
	{0x686c, anyRevision, 0, "AMD Radeon Instinct MI25 MxGPU"},
	{0x687f, anyRevision, 0, "AMD Radeon RX Vega"},
	{0x66a1, 0x06, 0, "AMD Radeon Pro VII"},
	{0x66a1, anyRevision, 0, "AMD Instinct MI60 / MI50"},
	{0x66af, anyRevision, 0, "AMD Radeon VII"},
	{0x738c, anyRevision, 0, "AMD Instinct MI100"},
	{0x738e, anyRevision, 0, "AMD Instinct MI100 VF"},
	{0x7408, anyRevision, 0, "AMD Instinct MI250X"},
	{0x740c, anyRevision, 0, "AMD Instinct MI250X / MI250"},
	{0x740f, anyRevision, 0, "AMD Instinct MI210"},

	{0x74a0, anyRevision, 0, "AMD Instinct MI300A"},
	{0x74a1, anyRevision, 0, "AMD Instinct MI300X"},
	{0x74a2, anyRevision, 0, "AMD Instinct MI308X"},
	{0x74a5, anyRevision, 0, "AMD Instinct MI325X"},
	{0x74a8, anyRevision, 0, "AMD Instinct MI308X HF"},
	{0x74a9, anyRevision, 0, "AMD Instinct MI300X HF"},
	{0x74b4, anyRevision, 0, "AMD Instinct MI300A VF"},
	{0x74b5, anyRevision, 0, "AMD Instinct MI300X VF"},
	{0x74b6, anyRevision, 0, "AMD Instinct MI308X VF"},
	{0x74b9, anyRevision, 0, "AMD Instinct MI325X VF"},
	{0x74bc, anyRevision, 0, "AMD Instinct MI308X HF VF"},
	{0x74bd, anyRevision, 0, "AMD Instinct MI300X HF VF"},
	{0x75a0, anyRevision, 0, "AMD Instinct MI350X"},
	{0x75a3, anyRevision, 0, "AMD Instinct MI355X"},
	{0x75b0, anyRevision, 0, "AMD Instinct MI350X VF"},
	{0x75b3, anyRevision, 0, "AMD Instinct MI355X VF"},

	{0x73a1, anyRevision, 0, "AMD Radeon Pro V620"},
	{0x73a3, anyRevision, 0, "AMD Radeon Pro W6800"},
	{0x73ae, anyRevision, 0, "AMD Radeon Pro V620 MxGPU"},
	{0x73bf, 0xc0, 0, "AMD Radeon RX 6900 XT"},
	{0x73bf, 0xc1, 0, "AMD Radeon RX 6800 XT"},
	{0x73bf, 0xc3, 0, "AMD Radeon RX 6800"},
	{0x73bf, anyRevision, 0, "AMD Radeon RX 6800 / 6900 Series"},

	{0x7448, anyRevision, 0, "AMD Radeon Pro W7900"},
	{0x7449, anyRevision, 0, "AMD Radeon Pro W7800 48GB"},
	{0x744a, anyRevision, 0, "AMD Radeon Pro W7900 Dual Slot"},
	{0x744c, 0xc8, 0, "AMD Radeon RX 7900 XTX"},
	{0x744c, 0xcc, 0, "AMD Radeon RX 7900 XT"},
	{0x744c, 0xce, 0, "AMD Radeon RX 7900 GRE"},
	{0x744c, 0xcf, 0, "AMD Radeon RX 7900M"},
	{0x744c, anyRevision, 0, "AMD Radeon RX 7900 Series"},
	{0x745e, anyRevision, 0, "AMD Radeon Pro W7800"},
	{0x7460, anyRevision, 0, "AMD Radeon Pro V710"},
	{0x7461, anyRevision, 0, "AMD Radeon Pro V710 MxGPU"},
	{0x7470, anyRevision, 0, "AMD Radeon Pro W7700"},
	{0x747e, 0xc8, 0, "AMD Radeon RX 7800 XT"},
	{0x747e, 0xff, 0, "AMD Radeon RX 7700 XT"},
	{0x747e, anyRevision, 0, "AMD Radeon RX 7700 / 7800 Series"},
	{0x7480, 0x00, 0, "AMD Radeon Pro W7600"},
	{0x7480, 0xc0, 0, "AMD Radeon RX 7600 XT"},
	{0x7480, 0xcf, 0, "AMD Radeon RX 7600"},
	{0x7480, anyRevision, 0, "AMD Radeon RX 7600 Series"},

	{0x7550, 0xc0, 0, "AMD Radeon RX 9070 XT"},
	{0x7550, 0xc2, 0, "AMD Radeon RX 9070 GRE"},
	{0x7550, 0xc3, 0, "AMD Radeon RX 9070"},
	{0x7550, anyRevision, 0, "AMD Radeon RX 9070 Series"},
	{0x7551, 0xc0, 0, "AMD Radeon AI PRO R9700"},
	{0x7551, 0xc8, 0, "AMD Radeon AI PRO R9600D"},
	{0x7551, anyRevision, 0, "AMD Radeon AI PRO R9000 Series"},
	{0x7590, 0xc0, 0, "AMD Radeon RX 9060 XT"},
	{0x7590, 0xc1, 0, "AMD Radeon RX 9060 XT LP"},
	{0x7590, 0xc7, 0, "AMD Radeon RX 9060"},
	{0x7590, anyRevision, 0, "AMD Radeon RX 9060 Series"},

	// Strix Halo: one device id, told apart by its CUs.
	{0x1586, anyRevision, 40, "AMD Radeon 8060S"},
	{0x1586, anyRevision, 32, "AMD Radeon 8050S"},
	{0x1586, anyRevision, 16, "AMD Radeon 8040S"},
	{0x1586, anyRevision, 0, "AMD Radeon 8000S Series"},
	{0x150e, anyRevision, 0, "AMD Radeon 890M"},
	{0x15bf, anyRevision, 0, "AMD Radeon 780M"},
	{0x1681, anyRevision, 0, "AMD Radeon 680M"},
	{0x164e, anyRevision, 0, "AMD Radeon 610M"},
}

// apuTargets are the target versions of GPUs that are part of a CPU and use
// its memory. MI300A shares gfx942 with cards and is known by its device id.
var apuTargets = [...]string{
	"gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037",
	"gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153",
}
