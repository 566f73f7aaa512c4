//go:build ui

package ui

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// The charts of the overview stay in place when the page updates, with the values under the cursor. They follow the theme
// and the width of the window, and are text without scripts.
func testCharts(t *testing.T, f *fleet, _ data) {
	b := f.tab(t)
	b.signIn(operatorKey)
	b.until("the chart is drawn", `document.querySelector("#chart-ended canvas") !== null && document.querySelector("#chart-running canvas") !== null`)
	if text := eval[string](b, `document.querySelector("#chart-ended").innerText`); !strings.Contains(text, "last hour") || !strings.Contains(text, "succeeded") {
		t.Errorf("the legend without a cursor is %q", text)
	}
	at := eval[[]float64](b, `(() => { const over = document.querySelector("#chart-ended .u-over"); over.scrollIntoView({ block: "center" }); const r = over.getBoundingClientRect(); return [r.right - 5, r.top + r.height / 2]; })()`)
	b.run(chromedp.MouseEvent("mouseMoved", at[0]-2, at[1]), chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	b.until("the legend has the time under the cursor", `/\d\d:\d\d to \d\d:\d\d/.test(document.querySelector("#chart-ended").innerText)`)
	b.run(chromedp.Evaluate(`window.part = document.querySelector("#live"); window.plot = document.querySelector("#chart-ended .uplot")`, nil))
	b.until("the page updates", `document.querySelector("#live") !== window.part`)
	if !eval[bool](b, `document.querySelector("#chart-ended .uplot") === window.plot && /\d\d:\d\d to \d\d:\d\d/.test(window.plot.innerText)`) {
		t.Error("the update drew a new plot, or removed its cursor")
	}
	b.run(chromedp.MouseEvent("mouseMoved", 5, 5))
	b.until("the legend has the sums again", `window.plot.innerText.includes("last hour")`)
	b.run(emulation.SetDeviceMetricsOverride(390, 800, 1, true))
	b.until("the plot is as narrow as its chart", `document.querySelector("#chart-ended .u-wrap").offsetWidth <= document.querySelector("#chart-ended").clientWidth`)
	marker := `getComputedStyle(document.querySelector("#chart-ended .u-series:nth-child(2) .u-marker")).backgroundColor`
	light := eval[string](b, marker)
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	b.until("the colours are those of the dark theme", marker+` !== "`+light+`"`)
	b.run(emulation.SetScriptExecutionDisabled(true))
	b.open("/ui/")
	if text := eval[string](b, `document.querySelector("#chart-ended").textContent`); !strings.HasPrefix(text, "Jobs that ended in the last hour: ") {
		t.Errorf("the chart without scripts is %q", text)
	}
}
