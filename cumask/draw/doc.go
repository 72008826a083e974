// Package draw paints who holds which compute units of a GPU: as text for a
// terminal, with one letter for each holder, and as SVG.
//
// Both show the CUs where they are: a row for each XCC, or for each shader
// engine of a GPU with one XCC, and the CUs of a row grouped by shader engine or
// array where the geometry knows them. A mask that is good to its XCCs has as
// many letters in every row; one that starves an XCC leaves a row without.
//
//	GPU 0, MI300X
//	304 CUs on 8 XCCs, 190 free, shader engines nominal
//	       SE 0       SE 1       SE 2      SE 3
//	XCC 0  aaab...... aaab...... aabb..... aab......    23 free
//	XCC 1  aaab...... aaab...... aabb..... aab......    23 free
//	...
//	 a  ml/train    76 CUs    72 effective  0-75
//	 b  ml/serve    38 CUs    32 effective  76-113
//	 .  free       190 CUs   184 effective  114-303
//
// Names come from pods and are not trusted: what could break out of a line or
// of the markup is replaced. The same input gives the same bytes.
package draw
