// Package palette has the colours of those who share a GPU, for every picture
// that the module draws.
package palette

// A Colour is a holder's, on a terminal of 256 colours and in SVG and HTML.
type Colour struct {
	Terminal int
	Hex      string
	Dark     bool // letters on it are white, for the better contrast
}

// Size is how many colours there are.
const Size = 10

// Of returns colour i, from 0 to Size-1. The first eight are told apart with every
// common kind of colour blindness: Okabe and Ito's set, less black, and a violet.
// Letters have to tell apart what colours repeat.
func Of(i int) Colour {
	return [Size]Colour{
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
	}[i]
}
