// Franz-go as a column of the compatibility card: every scenario in one process.
//
// Usage: compat BOOTSTRAP PREFIX FEATURE... Prints one JSON line for each feature, in order.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// A scenario panics where something is not as it must be.
var scenarios = map[string]func(*run){}

type line struct {
	Scenario string `json:"scenario"`
	Result   string `json:"result"`
	Detail   string `json:"detail"`
}

func main() {
	bootstrap, prefix := os.Args[1], os.Args[2]
	addRecords()
	addReading()
	addGroups()
	addTopics()
	addOffsets()
	addCluster()
	out := json.NewEncoder(os.Stdout)
	for _, feature := range os.Args[3:] {
		said := line{Scenario: feature, Result: "ok"}
		if problem := attempt(bootstrap, prefix, feature); problem != "" {
			said.Result, said.Detail = "FAIL", problem
		}
		if err := out.Encode(said); err != nil {
			panic(err)
		}
	}
}

// attempt gives what went wrong and where, or nothing.
func attempt(bootstrap, prefix, feature string) (problem string) {
	scenario, known := scenarios[feature]
	if !known {
		return "the program has no such scenario"
	}
	r := newRun(bootstrap, prefix+"."+feature)
	defer r.close()
	defer func() {
		if reason := recover(); reason != nil {
			problem = fmt.Sprintf("%v (%s)", reason, place())
		}
	}()
	scenario(r)
	return ""
}

// place is the first line of a scenario in the stack.
func place() string {
	for _, line := range strings.Split(string(debug.Stack()), "\n") {
		at := strings.TrimSpace(line)
		for _, file := range []string{"records.go", "reading.go", "groups.go", "topics.go", "offsets.go", "cluster.go"} {
			if i := strings.Index(at, "/"+file+":"); i >= 0 {
				return strings.Fields(at[i+1:])[0]
			}
		}
	}
	return "?"
}
