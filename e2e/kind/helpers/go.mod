module github.com/fleetwright/fleetwright/e2e/kind/helpers

go 1.26
