package semel

import "net/http"

func methodOf(req *http.Request) string {
	if req.Method == "" {
		return http.MethodGet
	}
	return req.Method
}

func safeMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// idempotent methods, RFC 9110 section 9.2.2.
func idempotent(m string) bool { return safeMethod(m) || m == http.MethodPut || m == http.MethodDelete }
