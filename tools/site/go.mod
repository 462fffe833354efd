// The documentation site, and the check of the links in the documentation.
module github.com/fleetwright/fleetwright/tools/site

go 1.26.0

require github.com/yuin/goldmark v1.8.7
