package testserver

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const replayed = "Idempotent-Replayed"

// neverStored are response fields that belong to one message, one connection or one caller. A name in lower case is
// written as net/http canonicalizes it.
var neverStored = []string{
	"Set-Cookie", "Set-Cookie2", "Authorization", "Authentication-Info", "Www-Authenticate",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Date", "Server", "Alt-Svc", "Content-Length",
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	replayed,
}

func storableName(name string, connection []string) bool {
	name = http.CanonicalHeaderKey(name)
	return !slices.Contains(neverStored, name) && !strings.HasPrefix(name, http.TrailerPrefix) &&
		!slices.ContainsFunc(connection, func(c string) bool { return strings.EqualFold(strings.TrimSpace(c), name) })
}

// storable returns the fields that the handler has set or changed, without those that must not be replayed.
func storable(outer, sent http.Header) []Field {
	var names []string
	connection := strings.Split(strings.Join(sent.Values("Connection"), ","), ",")
	for name := range sent {
		if storableName(name, connection) && !slices.Equal(outer[name], sent[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // net/http sends them so, too
	var fields []Field
	for _, name := range names {
		for _, v := range sent[name] {
			fields = append(fields, Field{name, v})
		}
	}
	return fields
}

// setHeader makes h what the handler has made of the outer header. The length is set by who writes the body, and only the
// guard says that something was replayed.
func setHeader(h, outer, sent http.Header) {
	for name := range outer {
		if _, kept := sent[name]; !kept {
			delete(h, name)
		}
	}
	for name, values := range sent {
		h[name] = values
	}
	h.Del("Content-Length")
	h.Del(replayed)
}

// replay returns the stored answer as it is sent again.
func replay(stored *Answer) *Answer {
	a := &Answer{Status: stored.Status, Body: stored.Body}
	for _, f := range stored.Header {
		if storableName(f.Name, nil) {
			a.Header = append(a.Header, f)
		}
	}
	a.Header = append(a.Header, Field{replayed, "true"})
	return a
}

// send writes an answer that was not made by this request's handler.
func (a *attempt) send(ans *Answer) {
	a.write(ans.Status, ans.Body, func(h http.Header) { putHeader(h, ans) })
}

// putHeader replaces the fields that the answer has.
func putHeader(h http.Header, ans *Answer) {
	for _, f := range ans.Header {
		h.Del(f.Name)
	}
	ans.WriteHeader(h)
	if _, has := h["Content-Type"]; !has {
		h["Content-Type"] = nil // the first answer had none, so net/http must not guess one
	}
}

// write sends a whole reply, always with its length, so that a cut is noticed.
func (a *attempt) write(status int, body []byte, header func(http.Header)) {
	if !a.pass(AfterSettle) {
		return
	}
	header(a.w.Header())
	if hasBody(status) {
		a.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	n, cut := a.cut(len(body))
	a.w.WriteHeader(status)
	if hasBody(status) {
		_, _ = a.w.Write(body[:n]) // an error means that the client is gone
	}
	if cut {
		_ = http.NewResponseController(a.w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// writeAnswer writes the reply to a request that never became an attempt.
func writeAnswer(w http.ResponseWriter, ans *Answer) {
	putHeader(w.Header(), ans)
	w.Header().Set("Content-Length", strconv.Itoa(len(ans.Body)))
	w.WriteHeader(ans.Status)
	_, _ = w.Write(ans.Body)
}
