{{- /* How to the database. In: root. */ -}}
{{- define "assay.databaseEnv" -}}
- name: ASSAY_DATABASE_URL
  valueFrom:
    {{- if .Values.quickstart.enabled }}
    secretKeyRef: {name: {{ include "assay.name" . }}-postgres, key: url}
    {{- else }}
    secretKeyRef: {name: {{ .Values.database.secret | quote }}, key: {{ .Values.database.key | quote }}}
    {{- end }}
{{- with .Values.database.tls }}
{{- if .secret }}
- {name: PGSSLMODE, value: {{ .mode | quote }}}
- {name: PGSSLROOTCERT, value: {{ printf "/etc/assay/database/%s" .ca | quote }}}
{{- if .cert }}
- {name: PGSSLCERT, value: {{ printf "/etc/assay/database/%s" .cert | quote }}}
- {name: PGSSLKEY, value: {{ printf "/etc/assay/database/%s" (required "database.tls.key is required with database.tls.cert" .key) | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
