package amdtest

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Count is one item of a refusal: Devices of Cards candidates.
type Count struct{ Devices, Cards int }

// words are those HAMi makes events of (pkg/device/common).
var words = [...]string{
	"CardTypeMismatch", "CardUuidMismatch", "CardTimeSlicingExhausted", "CardComputeUnitsExhausted",
	"CardInsufficientMemory", "CardInsufficientCore", "CardNotHealth", "CardCordoned", "NumaNotFit",
	"ExclusiveDeviceAllocateConflict", "CardNotFoundCustomFilterRule", "CardMigTopologyInfeasible",
	"NodeInsufficientDevice", "AllocatedCardsInsufficientRequest", "NodeUnfitPod", "NodeFitPod",
	"ResourceQuotaNotFit", "ModeNotFit",
}

// ParseReason reads a refusal, "1/8 CardInsufficientMemory, 2/8 CardNotHealth",
// the only form HAMi makes events of, and is stricter than HAMi: it is an error
// to have no items, an item twice, a word HAMi does not know or anything else
// between them.
func ParseReason(reason string) (map[string]Count, error) {
	counts := map[string]Count{}
	for item := range items(reason) {
		number, word, _ := strings.Cut(item, " ")
		n, m, _ := strings.Cut(number, "/")
		devices, err1 := strconv.Atoi(n)
		cards, err2 := strconv.Atoi(m)
		if _, twice := counts[word]; err1 != nil || err2 != nil || devices < 0 || !known(word) || twice {
			return nil, fmt.Errorf("reason %.200q: item %.64q: want <devices>/<cards> <HAMi's word>, each word once", reason, item)
		}
		counts[word] = Count{Devices: devices, Cards: cards}
	}
	return counts, nil
}

func items(reason string) iter.Seq[string] { return strings.SplitSeq(reason, ", ") }

func known(word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}
