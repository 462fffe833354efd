module github.com/fleetwright/fleetwright/tools/kind/helpers

go 1.26
