package draw

import "github.com/Project-HAMi/hami-amd/internal/palette"

func colourOf(owner int) palette.Colour { return palette.Of(owner % palette.Size) }

// clashColour marks CUs that several hold.
var clashColour = palette.Colour{Terminal: 196, Hex: "#e5004c", Dark: true}
