// Package draw paints a cluster as package inspect reads it: every GPU with its
// map of compute units, its VRAM, its tenants, what is free and what is wrong.
//
//   - [Text] is for a terminal, with one letter for each tenant of a GPU.
//   - [SVG] is one picture.
//   - [HTML] is one page with a filter, which needs nothing else: no network,
//     no fonts, no scripts but its own.
//
// A GPU is drawn as the silicon is: a row for each XCC, whichever partitions it
// is cut into, so an MI300X has the same eight rows as one GPU in SPX and as
// eight in CPX. A mask that is good to its XCCs has as many CUs in every row; one
// that starves an XCC leaves a row without. The register annotation does not
// name shader engines, so within a row CUs stand in the order of the mask's
// bits.
//
//	GPU 2  Instinct MI300X  0000:47:00.0  spx_nps1  2 of 10 shares
//	  XCC 0-3  aaaaaaaaaabbbbb.......................   23 free
//	  XCC 4-7  aaaaaaaaabbbbb........................   24 free
//	  VRAM     aaaaaaaaaabbbbb.......................   131056 of 196592 MiB free
//	  a  llm/chat-7d9f     vllm     76 CUs   72 effective   49152 MiB  0-75
//	  b  search/embed-5f   tei      38 CUs   32 effective   16384 MiB  76-113
//	  .  free                      190 CUs  184 effective  131056 MiB
//
// A pod has the same colour wherever it is, chosen by its name and moved on only
// where it would meet another pod of that colour on a GPU.
//
// Names and details come from pods and nodes and are not trusted: what is not
// printable is replaced, and markup is escaped. The same cluster gives the same
// bytes.
package draw
