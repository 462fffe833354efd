package status

import (
	"encoding/json"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// The hub's etcd refuses an object over 1.5 MiB. If etcd refuses a status, everything stops for its
// AppService: nothing is planned or delivered any more. Therefore the data that members report has
// a budget over all clusters. The rest of a cluster status is small.
const (
	// maxMessages is the maximum number of cluster statuses with the same reason that have a
	// message. The others have only the reason.
	maxMessages = 50
	// messageBudget is the maximum size of all messages together, in bytes of JSON.
	messageBudget = 256 << 10
	// addressBudget is the maximum size of the addresses of all clusters together, in bytes of
	// JSON.
	addressBudget = 256 << 10
)

// limitTexts drops messages and addresses that exceed the budget, in order of cluster name. So a
// change of one cluster status affects the texts of at most a few others, which are next to the
// limit. A dropped text comes back when the budget allows it and the cluster is observed again.
func limitTexts(entries []v1alpha1.ClusterStatus) {
	said := map[string]int{}
	messages, addresses := 0, 0
	for i := range entries {
		entry := &entries[i]
		if entry.Message != "" {
			size := encodedSize(entry.Message)
			if said[entry.Reason] == maxMessages || messages+size > messageBudget {
				entry.Message = ""
			} else {
				said[entry.Reason]++
				messages += size
			}
		}
		if len(entry.Addresses) > 0 {
			size := encodedSize(entry.Addresses)
			if addresses+size > addressBudget {
				entry.Addresses = nil
			} else {
				addresses += size
			}
		}
	}
}

// encodedSize returns the size of a text in etcd in bytes. JSON encodes some characters in six
// bytes.
func encodedSize(text any) int {
	content, err := json.Marshal(text)
	if err != nil {
		return rollout.MaxMessage // strings always marshal without an error
	}
	return len(content)
}
