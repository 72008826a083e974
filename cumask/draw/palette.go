package draw

// A colour is a holder's, on a terminal of 256 colours and in SVG. The first
// eight are told apart with every common kind of colour blindness (Okabe and
// Ito's set, less black, and a violet); letters tell apart what colours repeat.
type colour struct {
	terminal int
	hex      string
	dark     bool // letters on it are light, for the better contrast
}

var palette = [...]colour{
	{25, "#0072b2", true},
	{214, "#e69f00", false},
	{36, "#009e73", false},
	{175, "#cc79a7", false},
	{74, "#56b4e9", false},
	{166, "#d55e00", false},
	{221, "#f0e442", false},
	{97, "#7a5195", true},
	{130, "#8c564b", true},
	{150, "#b2df8a", false},
}

func colourOf(owner int) colour { return palette[owner%len(palette)] }

// clashColour marks CUs that several hold.
var clashColour = colour{196, "#e5004c", true}
