// Package sample says which part of a long suite a run takes.
//
// The environment variable SAMPLE has a number, by which suites choose: one test of four, one of two
// restores, the seed. The Makefile derives it from the commit, so a failure repeats. Without SAMPLE, or
// if it is 0, suites run everything, with random seeds.
//
//	if number, isSample := sample.Number(); isSample && number%3 != part { t.Skip() }
package sample

import (
	"hash/fnv"
	"os"
	"strconv"
)

// Number returns the number in SAMPLE.
func Number() (number uint64, isSample bool) {
	number, err := strconv.ParseUint(os.Getenv("SAMPLE"), 10, 64)
	return number, err == nil && number != 0
}

// Takes reports whether the run takes what has this name, if it takes one of so many. Without a sample
// it takes all.
func Takes(name string, oneOf uint64) bool {
	number, isSample := Number()
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return !isSample || (hash.Sum64()+number)%oneOf == 0
}
