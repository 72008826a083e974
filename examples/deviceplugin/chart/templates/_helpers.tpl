{{/* The labels of every object. */}}
{{- define "amd-gpu.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: device-plugin
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* What a pod of the release can be found by. */}}
{{- define "amd-gpu.podLabels" -}}
{{ include "amd-gpu.selector" . }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: device-plugin
{{- end }}

{{/* The label the DaemonSet finds its pods by. A selector can never be changed. */}}
{{- define "amd-gpu.selector" -}}
name: {{ .Chart.Name }}-dp-ds
{{- end }}

{{/* The name of the cluster role, its binding and, by default, the account. */}}
{{- define "amd-gpu.name" -}}
{{ .Release.Name }}-device-plugin
{{- end }}

{{- define "amd-gpu.serviceAccount" -}}
{{ .Values.dp.serviceAccount.name | default (include "amd-gpu.name" .) }}
{{- end }}

{{- define "amd-gpu.image" -}}
{{ .Values.dp.image.repository }}:{{ .Values.dp.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The host directory of the hook, without a slash at its end. */}}
{{- define "amd-gpu.hookPath" -}}
{{ trimSuffix "/" .Values.dp.hostHookPath }}
{{- end }}

{{/* The file with settings of single nodes. */}}
{{- define "amd-gpu.nodeConfig" -}}
{{ dict "nodeconfig" .Values.dp.nodeConfig | toJson }}
{{- end }}

{{- define "amd-gpu.monitorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: monitor
{{- end }}

{{/* The port of the monitor's address. */}}
{{- define "amd-gpu.monitorPort" -}}
{{ regexFind "[0-9]+$" .Values.monitor.metricsBindAddress }}
{{- end }}
