{{- define "assay.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "assay.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end -}}
{{- define "assay.dispatcherImage" -}}
{{- printf "%s/%s:%s" .Values.image.registry .Values.image.dispatcher (include "assay.tag" .) -}}
{{- end -}}
{{- define "assay.workerImage" -}}
{{- printf "%s/%s:%s" .Values.image.registry .Values.image.worker (include "assay.tag" .) -}}
{{- end -}}

{{- define "assay.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "assay.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* A pool as it is: the defaults, and what it says itself, map by map. In: dict root, name. Out: YAML. sprig's own merge
would take 0 and false for nothing said. */ -}}
{{- define "assay.pool" -}}
{{- include "assay.merge" (dict "base" .root.Values.poolDefaults "over" (get .root.Values.pools .name | default dict)) -}}
{{- end -}}
{{- define "assay.merge" -}}
{{- $out := deepCopy .base -}}
{{- range $k, $v := .over -}}
{{- if and (kindIs "map" $v) (kindIs "map" (get $out $k)) (ne $k "storage") -}}
{{- $_ := set $out $k (fromYaml (include "assay.merge" (dict "base" (get $out $k) "over" $v))) -}}
{{- else -}}
{{- $_ := set $out $k $v -}}
{{- end -}}
{{- end -}}
{{- toYaml $out -}}
{{- end -}}

{{- /* What dispatchers know of the pools before their workers say so. */ -}}
{{- define "assay.pools" -}}
{{- $pools := list -}}
{{- range $name := keys .Values.pools | sortAlpha -}}
{{- $p := fromYaml (include "assay.pool" (dict "root" $ "name" $name)) -}}
{{- $said := list -}}
{{- if $p.exclusive }}{{ $said = append $said "exclusive" }}{{ end -}}
{{- range $k, $v := $p.labels }}{{ $said = append $said (printf "label.%s=%s" (urlquery $k) (toString $v | urlquery)) }}{{ end -}}
{{- range $p.images }}{{ $said = append $said (printf "image=%s" (urlquery .)) }}{{ end -}}
{{- $pools = append $pools (list $name (join "&" $said) | compact | join "?") -}}
{{- end -}}
{{- join "," $pools -}}
{{- end -}}

{{- define "assay.natsURL" -}}
{{- if .Values.quickstart.enabled -}}nats://{{ include "assay.name" . }}-nats:4222{{- else -}}{{ required "nats.url is required" .Values.nats.url }}{{- end -}}
{{- end -}}
{{- define "assay.objectsURL" -}}
{{- if .Values.quickstart.enabled -}}
s3://assay?region=us-east-1&endpoint=http://{{ include "assay.name" . }}-objects:7070&use_path_style=true
{{- else -}}{{ required "objects.url is required" .Values.objects.url }}{{- end -}}
{{- end -}}
{{- define "assay.objectsDir" -}}
{{- if hasPrefix "file://" (include "assay.objectsURL" .) -}}{{ (urlParse (include "assay.objectsURL" .)).path }}{{- end -}}
{{- end -}}
{{- define "assay.natsAuth" -}}
{{- if .Values.quickstart.enabled -}}issued{{- else -}}{{ .Values.nats.auth }}{{- end -}}
{{- end -}}

{{- /* What a process shows to the NATS server and believes it by, of Secrets whose keys may have any names: sources of one volume,
nothing if there are none. In: dict root, credentials. */ -}}
{{- define "assay.natsFiles" -}}
{{- $v := .root.Values -}}
{{- if and $v.nats.tls.secret (not $v.quickstart.enabled) }}
- secret:
    name: {{ $v.nats.tls.secret | quote }}
    items:
      - {key: {{ $v.nats.tls.ca | quote }}, path: ca.crt}
      {{- if $v.nats.tls.cert }}
      - {key: {{ $v.nats.tls.cert | quote }}, path: tls.crt}
      - {key: {{ required "nats.tls.key is required with nats.tls.cert" $v.nats.tls.key | quote }}, path: tls.key}
      {{- end }}
{{- end }}
{{- if and (eq (include "assay.natsAuth" .root) "users") .credentials.secret }}
- secret:
    name: {{ .credentials.secret | quote }}
    items:
      {{- with .credentials.creds }}
      - {key: {{ . | quote }}, path: user.creds}
      {{- end }}
      {{- with .credentials.nkey }}
      - {key: {{ . | quote }}, path: user.nk}
      {{- end }}
{{- end }}
{{- end -}}

{{- /* The environment of every process. In: dict root, side (dispatcher or worker), credentials. */ -}}
{{- define "assay.env" -}}
{{- $v := .root.Values -}}
- name: ASSAY_NATS_URL
  value: {{ include "assay.natsURL" .root | quote }}
- name: ASSAY_OBJECTS_URL
  value: {{ include "assay.objectsURL" .root | quote }}
{{- if include "assay.natsFiles" . }}
- {name: ASSAY_NATS_DIR, value: /etc/assay/nats}
{{- end }}
{{- $keys := get $v.objects.secrets .side }}
{{- if $v.quickstart.enabled }}{{ $keys = printf "%s-objects" (include "assay.name" .root) }}{{ end }}
{{- if $keys }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ $keys | quote }}, key: AWS_ACCESS_KEY_ID}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ $keys | quote }}, key: AWS_SECRET_ACCESS_KEY}
{{- end }}
{{- with $v.telemetry.otlpEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* Files that every process has. In: dict root, credentials. */ -}}
{{- define "assay.mounts" -}}
{{- $v := .root.Values -}}
{{- if include "assay.natsFiles" . }}
- {name: nats, mountPath: /etc/assay/nats, readOnly: true}
{{- end }}
{{- if $v.objects.volume }}
- {name: objects, mountPath: {{ include "assay.objectsDir" .root | required "objects.volume is for an objects.url of file://" | quote }}}
{{- end }}
{{- end -}}
{{- define "assay.volumes" -}}
{{- $v := .root.Values -}}
{{- with include "assay.natsFiles" . }}
- name: nats
  projected:
    defaultMode: 0444
    sources: {{- . | nindent 6 }}
{{- end }}
{{- if $v.objects.volume }}
- name: objects
  {{- toYaml $v.objects.volume | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "assay.account" -}}
{{- $a := get .root.Values.serviceAccounts .side -}}
{{- $a.name | default (ternary (printf "%s-%s" (include "assay.name" .root) .side) "default" $a.create) -}}
{{- end -}}

{{- /* Security context of pods that run no job code. */ -}}
{{- define "assay.podWalls" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "assay.walls" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* The port of the endpoint in objects.url. */ -}}
{{- define "assay.objectsPort" -}}
{{- $e := regexReplaceAll ".*[?&]endpoint=([^&]*).*" (include "assay.objectsURL" .) "${1}" -}}
{{- if contains "?" $e -}}443
{{- else if not (contains "://" $e) -}}443
{{- else if hasPrefix "s3://" $e -}}443
{{- else -}}
{{- $p := regexFind ":[0-9]+" (urlParse $e).host | trimPrefix ":" -}}
{{- $p | default (ternary "80" "443" (hasPrefix "http://" $e)) -}}
{{- end -}}
{{- end -}}
