package status

import (
	"encoding/json"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// The hub's etcd refuses an object over 1.5 MiB. A status that is refused stops everything for its AppService: nothing is
// planned or delivered any more. So what members say has a budget over all clusters; the rest of a cluster status is small.
const (
	// maxMessages is how many cluster statuses of one reason have a message. The others have the reason alone.
	maxMessages = 50
	// messageBudget is how many bytes all messages together may take, as JSON.
	messageBudget = 256 << 10
	// addressBudget is how many bytes the addresses of all clusters together may take, as JSON.
	addressBudget = 256 << 10
)

// limitTexts drops messages and addresses that exceed the budget, in order of name. So a cluster status that changes decides at
// most about a few others: those that are next to the limit. What was dropped comes back when there is room and the cluster is
// observed again.
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

// encodedSize returns how many bytes a text takes in etcd: some characters take six.
func encodedSize(text any) int {
	content, err := json.Marshal(text)
	if err != nil {
		return rollout.MaxMessage // strings have no such error
	}
	return len(content)
}
