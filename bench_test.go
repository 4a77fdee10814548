package semel

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
)

// answerAtOnce is a base that reads the body and answers, as cheaply as a base can.
type answerAtOnce struct{ reply []byte }

func (a answerAtOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: replyHeader,
		ContentLength: int64(len(a.reply)), Body: io.NopCloser(bytes.NewReader(a.reply)), Request: r,
	}, nil
}

var replyHeader = http.Header{"Content-Type": {"application/json"}}

func BenchmarkHappyPath(b *testing.B) {
	base := answerAtOnce{[]byte(`{"id":"1"}`)}
	bases := []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", base},
		{"semel", &Transport{Base: base}},
		{"semel-timer-and-buffer-off", &Transport{Base: base, Retry: Policy{AttemptTimeout: Forever}, MaxReply: -1}},
	}
	for _, method := range []string{"GET", "POST"} {
		for _, rt := range bases {
			b.Run(method+"/"+rt.name, func(b *testing.B) {
				client := &http.Client{Transport: rt.rt}
				body := make([]byte, 1024)
				b.ReportAllocs()
				for b.Loop() {
					var r io.Reader
					if method == "POST" {
						r = bytes.NewReader(body)
					}
					req, _ := http.NewRequestWithContext(context.Background(), method, "http://api.test/transfers", r)
					req.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}
}
