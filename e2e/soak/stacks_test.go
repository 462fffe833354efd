package main

import "testing"

func TestStacks_name_what_started_more_goroutines(t *testing.T) {
	old := parseStacks(`SIGQUIT: quit
goroutine 1 [running]:
main.main()
goroutine 7 [select]:
created by net/http.(*Transport).dialConn in goroutine 3
	/net/http/transport.go:1
created by net/http.(*Transport).dialConn in goroutine 5
created by main.leak in goroutine 1
created by main.leak in goroutine 1
created by main.leak in goroutine 1
created by main.same
`)
	fresh := parseStacks("created by main.same in goroutine 8\ncreated by net/http.(*Transport).dialConn in goroutine 8\n")
	if got, want := old.more(fresh), "3 × main.leak, 1 × net/http.(*Transport).dialConn"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
