package rollup

import (
	"encoding/json"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
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
func limitTexts(rows []v1alpha1.ClusterStatus) {
	said := map[string]int{}
	messages, addresses := 0, 0
	for i := range rows {
		row := &rows[i]
		if row.Message != "" {
			size := encodedSize(row.Message)
			if said[row.Reason] == maxMessages || messages+size > messageBudget {
				row.Message = ""
			} else {
				said[row.Reason]++
				messages += size
			}
		}
		if len(row.Addresses) > 0 {
			size := encodedSize(row.Addresses)
			if addresses+size > addressBudget {
				row.Addresses = nil
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
		return maxMessage // strings have no such error
	}
	return len(content)
}
