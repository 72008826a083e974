package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// maxLinks bounds the link records of a node: one per other node.
const maxLinks = maxNodes

// linkFolders are KFD's two kinds of link records.
var linkFolders = [...]struct {
	name string
	peer bool
}{
	{"io_links", false},
	{"p2p_links", true},
}

// readLinks reads the link records of a node, ascending by node number. The
// node's own number is the folder's; what a record says in node_from is not
// used. Records that name no node of this topology, or are broken, are left
// out and noted: links only help to choose.
func readLinks(node *folder, exists map[int]bool) (links []Link, notes []string) {
	for _, kind := range linkFolders {
		found, err := readLinkFolder(node, kind.name, kind.peer, exists)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", kind.name, err))
		}
		links = append(links, found...)
	}
	slices.SortStableFunc(links, func(a, b Link) int {
		return cmp.Or(boolCompare(a.Peer, b.Peer), cmp.Compare(a.To, b.To))
	})
	return links, notes
}

// readLinkFolder reads the records of one kind. The error is that of the first
// broken record; the good ones are returned all the same.
func readLinkFolder(node *folder, name string, peer bool, exists map[int]bool) ([]Link, error) {
	dir, err := node.sub(name)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.close()
	names, err := dir.names()
	if err != nil {
		return nil, err
	}
	ids := numbered(names)
	if len(ids) > maxLinks {
		return nil, fmt.Errorf("%d records, want at most %d", len(ids), maxLinks)
	}
	links := make([]Link, 0, len(ids))
	var first error
	for _, id := range ids {
		l, err := readLink(dir, id, exists)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		l.Peer = peer
		links = append(links, l)
	}
	return links, first
}

func readLink(dir *folder, id int, exists map[int]bool) (Link, error) {
	raw, err := dir.readIn(strconv.Itoa(id), "properties", maxAttribute)
	if err != nil {
		return Link{}, err
	}
	var p linkProps
	if err := parseProps(raw, p.field); err != nil {
		return Link{}, fmt.Errorf("link %d: %w", id, err)
	}
	const most = 1 << 30
	if !p.to.ok || p.to.n >= maxNodes || !exists[int(p.to.n)] {
		return Link{}, fmt.Errorf("link %d: node_to %d is no node", id, p.to.n)
	}
	if p.kind.n > most || p.weight.n > most || p.minMBps.n > most || p.maxMBps.n > most {
		return Link{}, fmt.Errorf("link %d: a value beyond %d", id, most)
	}
	return Link{
		To: int(p.to.n), Type: LinkType(p.kind.n), Weight: int(p.weight.n),
		MinMBps: int(p.minMBps.n), MaxMBps: int(p.maxMBps.n),
	}, nil
}
