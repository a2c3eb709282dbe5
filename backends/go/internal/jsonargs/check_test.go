package jsonargs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type drain struct {
	common
	Label  string          `json:"label"`
	Rules  []rule          `json:"rules,omitempty"`
	Tiers  map[string]int8 `json:"tiers,omitempty"`
	Share  *float64        `json:"share,omitempty"`
	On     bool            `json:"on,omitempty"`
	Pair   [2]uint         `json:"pair,omitempty"`
	Since  time.Time       `json:"since,omitzero"`
	Any    any             `json:"any,omitempty"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	Quoted int             `json:"quoted,omitempty,string"`
	Hidden string          `json:"-"`
}

type common struct {
	Region string `json:"region,omitempty"`
}

type rule struct {
	Weight uint8 `json:"weight"`
}

func TestMistakesHaveTheirPathAndWhatIsExpected(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                         "args: missing field `label`",
		`{"lable":"rack"}`:           "args.lable: unknown field `lable`, expected `region`, `label`, `rules`, ",
		`{"LABEL":"rack"}`:           "args.LABEL: unknown field",
		`{"label":7}`:                "args.label: invalid type: integer `7`, expected a string",
		`{"label":null}`:             "args.label: invalid type: null, expected a string",
		`{"label":"a","rules":{}}`:   "args.rules: invalid type: an object, expected a list",
		`{"label":"a","rules":[{}]}`: "args.rules[0]: missing field `weight`",
		`{"label":"a","rules":[{"weight":1},{"weight":300}]}`: "args.rules[1].weight: invalid value: integer `300`, expected an integer from 0 to 255",
		`{"label":"a","rules":[{"weight":1.5}]}`:              "args.rules[0].weight: invalid value: number `1.5`, expected an integer from 0 to 255",
		`{"label":"a","rules":[{"weight":"1"}]}`:              `args.rules[0].weight: invalid type: string "1", expected an integer from 0 to 255`,
		`{"label":"a","rules":[{"wieght":1}]}`:                "args.rules[0].wieght: unknown field `wieght`, expected `weight`",
		`{"label":"a","tiers":{"gold":128}}`:                  "args.tiers.gold: invalid value: integer `128`, expected an integer from -128 to 127",
		`{"label":"a","on":"yes"}`:                            `args.on: invalid type: string "yes", expected true or false`,
		`{"label":"a","share":[]}`:                            "args.share: invalid type: a list, expected a number",
		`{"label":"a","pair":[1]}`:                            "args.pair: invalid length 1, expected a list of 2",
		`{"label":"a","label":"b"}`:                           "args.label: the field is given twice",
		`{"label":"a"} {}`:                                    "args: trailing characters",
		`{"label":"a"`:                                        "args: the JSON ends too early",
		`{"label":}`:                                          "args: not JSON",
		`{"label":"a","Hidden":"x"}`:                          "args.Hidden: unknown field",
		`{"label":"a","any":[{}],"raw":{"b":1},"share":null,"since":"2026-01-02T03:04:05Z","quoted":"5","region":"eu","pair":[1,2]}`: "",
	} {
		err := Check([]byte(text), reflect.ValueOf(new(drain)).Elem())
		if want == "" && err != nil {
			t.Errorf("%s: %v", text, err)
		} else if want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestAFieldWithADefaultIsNotRequired(t *testing.T) {
	type args struct {
		common
		Rule *rule  `json:"rule"`
		Most string `json:"most"`
	}
	for text, want := range map[string]string{`{"most":"1"}`: "<nil>", `{"rule":{},"most":"1"}`: "<nil>", `{}`: "args: missing field `most`"} {
		if err := Check([]byte(text), reflect.ValueOf(args{Rule: &rule{1}})); fmt.Sprint(err) != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestACopySharesNothing(t *testing.T) {
	share := 0.5
	one := drain{Rules: []rule{{1}}, Tiers: map[string]int8{"a": 1}, Share: &share, Any: "x"}
	two := Clone(one)
	if !reflect.DeepEqual(one, two) {
		t.Errorf("%v is not %v", two, one)
	}
	two.Rules[0].Weight, two.Tiers["a"], *two.Share = 2, 2, 0.7
	if one.Rules[0].Weight != 1 || one.Tiers["a"] != 1 || share != 0.5 {
		t.Errorf("%v has changed", one)
	}
}

func TestNestedArgsAreRefusedAtOnce(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000)} {
		err := Check([]byte(text), reflect.ValueOf(new(map[string]any)).Elem())
		if err == nil || !strings.Contains(err.Error(), "more than 100 levels") {
			t.Error(err)
		}
	}
}
