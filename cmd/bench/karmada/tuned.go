package karmada

import "slices"

// Tuned returns more flags for a large fleet. The limits of requests are so high that they do not
// matter here. Karmada's own report on 100 clusters raised them to 200. With 50 workers, 50 AppServices
// took as long as with 20, more CPU time and more writes. docs/benchmarks.md has what was tried.
func Tuned() Flags {
	requests := []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}
	retries := []string{"--rate-limiter-qps=1000", "--rate-limiter-bucket-size=2000"}
	return Flags{
		ControllerManager: slices.Concat(requests, retries, []string{
			"--cluster-api-qps=1000", "--cluster-api-burst=2000",
			"--concurrent-work-syncs=20", "--concurrent-resourcebinding-syncs=20", "--concurrent-resource-template-syncs=20",
			"--concurrent-propagation-policy-syncs=10", "--concurrent-cluster-syncs=10", "--concurrent-namespace-syncs=5",
		}),
		Scheduler:           slices.Concat(requests, retries),
		Webhook:             requests,
		AggregatedAPIServer: requests,
		GarbageCollector:    requests,
	}
}
