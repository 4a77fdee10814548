package testserver

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
)

// fingerprintVersion is hashed with the request: a new policy is a new version.
const fingerprintVersion = "semel-fingerprint-1"

// fingerprintOf hashes what makes two requests the same: method, path, query, content type and all bytes of the body. The
// parts are length-prefixed, so that no two lists of parts are hashed alike. Credentials are not among them: a refreshed
// token is still the same request.
func fingerprintOf(r *http.Request, body []byte) Fingerprint {
	return Fingerprint(digest(fingerprintVersion, r.Method, r.URL.EscapedPath(), r.URL.RawQuery,
		strings.Join(r.Header.Values("Content-Type"), ","), string(body)))
}

func digest(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return [sha256.Size]byte(h.Sum(nil))
}
