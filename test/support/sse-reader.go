// Reads an event stream as Go programs do: net/http and a bufio.Scanner with its default limits, nothing
// but the standard library. An event is one line of output, as of sse-reader.py.
//
// go run sse-reader.go URL KEY: prints each event as one JSON line, comes back with Last-Event-ID after
// the time that `retry` names, and ends with the status of an answer that is final.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

var (
	lastEventID string
	retry       = 3 * time.Second
)

func main() {
	for {
		request, err := http.NewRequest("GET", os.Args[1], nil)
		if err != nil {
			panic(err)
		}
		request.Header.Set("X-Service-Key", os.Args[2])
		request.Header.Set("Accept", "text/event-stream")
		if lastEventID != "" {
			request.Header.Set("Last-Event-ID", lastEventID)
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			status := response.StatusCode
			isFinal := status >= 400 && status < 500 && status != http.StatusTooManyRequests
			if status == http.StatusOK || isFinal {
				say(map[string]any{"status": status})
			}
			if isFinal {
				return
			}
			read(response.Body)
			response.Body.Close()
		}
		time.Sleep(retry)
	}
}

func read(body io.Reader) {
	event, data, cursor := "message", []string{}, lastEventID
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if lines.Text() == "" {
			// An event that was cut before its end comes again.
			lastEventID = cursor
			if len(data) > 0 {
				said := json.RawMessage(strings.Join(data, "\n"))
				say(map[string]any{"id": lastEventID, "event": event, "data": said})
			}
			event, data = "message", nil
			continue
		}
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			cursor = value
		case "event":
			event = value
		case "data":
			data = append(data, value)
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil {
				retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
