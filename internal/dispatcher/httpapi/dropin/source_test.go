package dropin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// badTexts returns texts in JSON that models may write, and that are no program in any language.
func badTexts() map[string]string {
	return map[string]string{
		"NUL": `"print(1)\u0000"`, "half a pair": `"x = '\ud83d'\nprint(1)"`, "the other half": `"\uDE00"`, "pair in reverse": `"\ude00\ud83d"`, "half before an escape": `"\ud83d\n"`, "bytes": "\"\xed\xa0\xbd\"",
		"no UTF-8": "\"\xff\"", "too long": `"` + strings.Repeat("x", 9<<20) + `"`, "half at the end": `"a\\\ud83d"`,
	}
}

// goodTexts returns valid texts that look like bad ones.
func goodTexts() map[string]string {
	return map[string]string{"pair": `"\ud83d\ude00"`, "escaped": `"\\ud83d"`, "text": `"é\u0001\ufffd"`, "empty": `""`, "two pairs": `"\uD83D\uDE00\ud83d\ude00"`}
}

// A source that is no program is a failed program, and not a bad request.
func TestUnfitSourcesFail(t *testing.T) {
	t.Parallel()
	for path, request := range map[string]string{
		fusion: `{"language":"python","code":%s}`, piston: `{"language":"python","version":"*","files":[{"content":%s}]}`,
		judge: `{"type":"python","solution":%s,"expected_output":"1"}`, "/code-judge/run": `{"type":"cpp","solution":%s}`,
	} {
		for name, text := range badTexts() {
			f := &fleet{result: json.RawMessage(printed)}
			resp := f.post(t, path, fmt.Appendf(nil, request, text))
			var got struct {
				Status     string
				RunSuccess *bool `json:"run_success"`
				RunResult  struct {
					Code   int `json:"return_code"`
					Stderr string
				} `json:"run_result"`
				Run struct {
					Code   int
					Status string
				}
			}
			if err := json.Unmarshal(resp.Body.Bytes(), &got); err != nil || resp.Code != http.StatusOK || f.runs != 0 {
				t.Errorf("%s, %s: %d %v %.200s after %d runs", path, name, resp.Code, err, resp.Body, f.runs)
				continue
			}
			failed := got.Status == "Failed" && got.RunResult.Code == 1 && strings.HasPrefix(got.RunResult.Stderr, "error: code: ") || got.Run.Code == 1 && got.Run.Status == "RE" ||
				got.RunSuccess != nil && !*got.RunSuccess
			if !failed {
				t.Errorf("%s, %s: %.300s", path, name, resp.Body)
			}
		}
		for name, text := range goodTexts() {
			f := &fleet{result: json.RawMessage(printed)}
			if resp := f.post(t, path, fmt.Appendf(nil, request, text)); resp.Code != http.StatusOK || f.runs != 1 {
				t.Errorf("%s, %s: %d %.200s after %d runs", path, name, resp.Code, resp.Body, f.runs)
			}
		}
	}
}

// In a batch, only the bad submission fails.
func TestOneBadSubmissionLeavesTheOthers(t *testing.T) {
	t.Parallel()
	good := `{"sub_id":"good","type":"python","solution":"print(42)"}`
	type item struct {
		ID      string `json:"sub_id"`
		Success bool
		Reason  string
	}
	bad := map[string]string{ // by JSON of the submission: the reason
		`5`: "internal_error", `null`: "internal_error", `{}`: "internal_error", `[]`: "internal_error", `"x"`: "internal_error",
		`{"type":"python","solution":1}`: "internal_error", `{"type":"python","solution":null}`: "internal_error", `{"type":"math","solution":"1"}`: "internal_error",
		`{"type":"python","solution":"1","input":"\u0000"}`: "internal_error", `{"sub_id":7,"type":"python","solution":"1"}`: "internal_error",
		`{"type":"python","solution":"1","input":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`: "internal_error",
		`{"type":"python","solution":"1","input":"` + strings.Repeat("x", 9<<20) + `"}`:                        "internal_error",
	}
	for _, text := range badTexts() {
		bad[`{"sub_id":"bad","type":"python","solution":`+text+`}`] = ""
	}
	for _, path := range []string{"/batch", "/long-batch"} {
		for raw, reason := range bad {
			f := &fleet{result: json.RawMessage(printed)}
			resp := f.post(t, judge+path, []byte(`{"sub_id":"all","submissions":[`+good+`,`+raw+`,`+good+`]}`))
			var got struct {
				ID      string `json:"sub_id"`
				Results []item
				Assay   []*struct{ Message string }
			}
			if err := json.Unmarshal(resp.Body.Bytes(), &got); err != nil || resp.Code != http.StatusOK || len(got.Results) != 3 || len(got.Assay) != 3 {
				t.Errorf("%.100s: %d %.300s", raw, resp.Code, resp.Body)
				continue
			}
			if got.ID != "all" || got.Results[0] != (item{"good", true, ""}) || got.Results[2] != got.Results[0] {
				t.Errorf("%.100s: the others: %+v", raw, got)
			}
			if x := got.Results[1]; x.Success || x.Reason != reason || x.ID == "" || reason == "" && x.ID != "bad" || got.Assay[1].Message == "" {
				t.Errorf("%.100s: %+v, %+v", raw, x, got.Assay[1])
			}
			if resp.Body.Len() > 10_000 {
				t.Errorf("%.100s: %d bytes", raw, resp.Body.Len())
			}
		}
	}
	for _, raw := range []string{`{"submissions":5}`, `{"submissions":{}}`, `{"submissions":null}`, `{}`, `{"sub_id":5,"submissions":[` + good + `]}`} {
		f := &fleet{result: json.RawMessage(printed)}
		if resp := f.post(t, judge+"/batch", []byte(raw)); resp.Code != http.StatusUnprocessableEntity || f.runs > 0 {
			t.Errorf("%s: %d %.200s", raw, resp.Code, resp.Body)
		}
	}
}
