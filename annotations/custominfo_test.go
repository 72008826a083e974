package annotations

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCustomInfoShapes(t *testing.T) {
	for name, tt := range map[string]struct {
		json string
		want CustomInfo
	}{
		"PCI address":        {`{"pciBDF":"0000:83:00.0"}`, CustomInfo{PCIBDF: "0000:83:00.0"}},
		"CUs of a WGP":       {`{"cuPerWGP":2}`, CustomInfo{CUsPerWGP: 2}},
		"XCCs":               {`{"numXCC":8}`, CustomInfo{NumXCC: 8}},
		"queues":             {`{"computeQueues":24}`, CustomInfo{ComputeQueues: 24}},
		"peers":              {`{"xgmiPeers":["0000:05:00.0","0000:15:00.0"]}`, CustomInfo{XGMIPeers: []string{"0000:05:00.0", "0000:15:00.0"}}},
		"no peers":           {`{"xgmiPeers":[]}`, CustomInfo{XGMIPeers: []string{}}},
		"current partition":  {`{"partitionProfile":"spx_nps1"}`, CustomInfo{PartitionProfile: "spx_nps1"}},
		"no profiles":        {`{"partitionProfiles":[]}`, CustomInfo{PartitionProfiles: []PartitionProfile{}}},
		"a profile":          {`{"partitionProfiles":[{"ProfileIndex":3,"Type":"CPX","MemoryCaps":"NPS1,NPS4","NumPartitions":8,"XCCPerPartition":1}]}`, CustomInfo{PartitionProfiles: []PartitionProfile{{ProfileIndex: 3, Type: "CPX", MemoryCaps: "NPS1,NPS4", NumPartitions: 8, XCCPerPartition: 1}}}},
		"an unnamed profile": {`{"partitionProfiles":[{"ProfileIndex":0,"Type":"","MemoryCaps":"","NumPartitions":0,"XCCPerPartition":0}]}`, CustomInfo{PartitionProfiles: []PartitionProfile{{}}}},
		"a newer profile":    {`{"partitionProfiles":[{"ProfileIndex":0,"Type":"SPX","MemoryCaps":"NPS1","NumPartitions":1,"XCCPerPartition":8,"IsDefault":true}]}`, CustomInfo{PartitionProfiles: []PartitionProfile{{Type: "SPX", MemoryCaps: "NPS1", NumPartitions: 1, XCCPerPartition: 8, Unknown: []Member{{"IsDefault", "true"}}}}}},
		"newer members":      {`{"lanes":16,"NumXCC":4,"nested":{"a":[{}]}}`, CustomInfo{Unknown: []Member{{"lanes", "16"}, {"NumXCC", "4"}, {"nested", `{"a":[{}]}`}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got CustomInfo
			if err := json.Unmarshal([]byte(tt.json), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.json, string(text)); diff != "" {
				t.Errorf("encoded (-want +got):\n%s", diff)
			}
		})
	}
}

// A member of another JSON type is kept and treated as absent: the value of a
// newer plugin must not take the node away.
func TestCustomInfoOfAnotherTypeIsKept(t *testing.T) {
	for _, member := range []string{
		`"pciBDF":7`,
		`"pciBDF":null`,
		`"cuPerWGP":"2"`,
		`"cuPerWGP":[2]`,
		`"numXCC":{"count":8}`,
		`"numXCC":true`,
		`"computeQueues":null`,
		`"partitionProfile":["spx","nps1"]`,
		`"xgmiPeers":"0000:05:00.0"`,
		`"xgmiPeers":["0000:05:00.0",{"bdf":"0000:15:00.0"}]`,
		`"xgmiPeers":[1]`,
		`"partitionProfiles":{"SPX":1}`,
		`"partitionProfiles":["SPX","CPX"]`,
		`"partitionProfiles":[{"ProfileIndex":0,"Type":"SPX"},null]`,
		`"partitionProfiles":[{"ProfileIndex":"0"}]`,
		`"partitionProfiles":[{"Type":1}]`,
		`"partitionProfiles":[{"MemoryCaps":["NPS1"]}]`,
		`"partitionProfiles":[{"x":1,"NumPartitions":null}]`,
	} {
		t.Run(member, func(t *testing.T) {
			value := `[{"id":"A","health":true,"custominfo":{` + member + `}}]`
			got, err := DecodeDevices(value)
			if err != nil {
				t.Fatal(err)
			}
			name, text, _ := strings.Cut(member, ":")
			want := CustomInfo{Unknown: []Member{{Name: strings.Trim(name, `"`), Value: text}}}
			if diff := cmp.Diff(want, got[0].CustomInfo); diff != "" {
				t.Errorf("custominfo (-want +got):\n%s", diff)
			}
			if again, err := EncodeDevices(got); again != value || err != nil {
				t.Errorf("encoded again: %s, %v, want %s", again, err, value)
			}
			checkAgainstJSON(t, value)
		})
	}
}

func TestCustomInfoRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ member, want string }{
		"a negative number":         {`"numXCC":-1`, `custominfo: numXCC: want a whole number from 0 to 2147483647, found "-1"`},
		"a fraction":                {`"cuPerWGP":2.5`, "cuPerWGP"},
		"a whole fraction":          {`"cuPerWGP":2.0`, "cuPerWGP"},
		"a number beyond int32":     {`"computeQueues":2147483648`, "computeQueues"},
		"a member twice":            {`"pciBDF":"a","pciBDF":"a"`, `member "pciBDF" is there twice`},
		"a bad number in a profile": {`"partitionProfiles":[{"Type":"SPX"},{"NumPartitions":-8}]`, "custominfo: partitionProfiles: element 1: NumPartitions: want a whole number"},
		"a profile member twice":    {`"partitionProfiles":[{"Type":"SPX","Type":"CPX"}]`, "twice"},
		"too many peers":            {`"xgmiPeers":[` + strings.Repeat(`"a",`, maxMembers) + `"a"]`, "xgmiPeers: more than 256 elements"},
		"too many profiles":         {`"partitionProfiles":[` + strings.Repeat(`{},`, maxMembers) + `{}]`, "partitionProfiles: more than 256 elements"},
		"too many unknown members":  {manyMembers(maxUnknown + 1), "more than 64 unknown members"},
		"a kept value cut off":      {`"xgmiPeers":[1`, "xgmiPeers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeDevices(`[{"id":"A","custominfo":{` + tt.member + `}}]`)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"m%d":0`, i)
	}
	return b.String()[1:]
}

func TestEncodeCustomInfoRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		info CustomInfo
		want string
	}{
		"negative queues":                   {CustomInfo{ComputeQueues: -1}, "computeQueues"},
		"negative CUs of a WGP":             {CustomInfo{CUsPerWGP: -2}, "cuPerWGP"},
		"XCCs beyond int32":                 {CustomInfo{NumXCC: math.MaxInt32 + 1}, "numXCC"},
		"a PCI address not in UTF-8":        {CustomInfo{PCIBDF: "\xff"}, "pciBDF"},
		"a partition not in UTF-8":          {CustomInfo{PartitionProfile: "\xff"}, "partitionProfile"},
		"a peer not in UTF-8":               {CustomInfo{XGMIPeers: []string{"\xff"}}, "xgmiPeers"},
		"too many peers":                    {CustomInfo{XGMIPeers: make([]string, maxMembers+1)}, "257 xgmiPeers"},
		"too many profiles":                 {CustomInfo{PartitionProfiles: make([]PartitionProfile, maxMembers+1)}, "257 partitionProfiles"},
		"a negative profile index":          {CustomInfo{PartitionProfiles: []PartitionProfile{{ProfileIndex: -1}}}, "element 0: ProfileIndex"},
		"negative partitions":               {CustomInfo{PartitionProfiles: []PartitionProfile{{}, {NumPartitions: -1}}}, "element 1: NumPartitions"},
		"negative XCCs":                     {CustomInfo{PartitionProfiles: []PartitionProfile{{XCCPerPartition: -1}}}, "XCCPerPartition"},
		"a profile type not in UTF-8":       {CustomInfo{PartitionProfiles: []PartitionProfile{{Type: "\xff"}}}, "Type"},
		"memory modes not in UTF-8":         {CustomInfo{PartitionProfiles: []PartitionProfile{{MemoryCaps: "\xff"}}}, "MemoryCaps"},
		"a profile member twice":            {CustomInfo{PartitionProfiles: []PartitionProfile{{Unknown: []Member{{"Type", `"SPX"`}}}}}, "twice"},
		"a set member among the unknown":    {CustomInfo{NumXCC: 8, Unknown: []Member{{"numXCC", "8"}}}, "twice"},
		"set peers among the unknown":       {CustomInfo{XGMIPeers: []string{}, Unknown: []Member{{"xgmiPeers", "1"}}}, "twice"},
		"set profiles among the unknown":    {CustomInfo{PartitionProfiles: []PartitionProfile{}, Unknown: []Member{{"partitionProfiles", "1"}}}, "twice"},
		"a set address among the unknown":   {CustomInfo{PCIBDF: "a", Unknown: []Member{{"pciBDF", "1"}}}, "twice"},
		"a set partition among the unknown": {CustomInfo{PartitionProfile: "a", Unknown: []Member{{"partitionProfile", "1"}}}, "twice"},
		"set queues among the unknown":      {CustomInfo{ComputeQueues: 1, Unknown: []Member{{"computeQueues", `"1"`}}}, "twice"},
		"set CUs of a WGP among unknown":    {CustomInfo{CUsPerWGP: 2, Unknown: []Member{{"cuPerWGP", `"1"`}}}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := EncodeDevices([]Device{{ID: "A", CustomInfo: tt.info}})
			if err == nil || !strings.Contains(err.Error(), "custominfo: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with custominfo and %q", err, tt.want)
			}
		})
	}
}
