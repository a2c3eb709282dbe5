module {{name}}

go 1.26.0

require extender-gateway.io/policy v{{version}}

// The SDK is used by its path until it is published.
replace extender-gateway.io/policy => {{sdk}}
