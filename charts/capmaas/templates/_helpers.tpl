{{- define "capmaas.labels" -}}
cluster.x-k8s.io/provider: infrastructure-maas
app.kubernetes.io/name: capmaas
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The selector of the Go provider's Deployment, which cannot be changed in place. */}}
{{- define "capmaas.selector" -}}
control-plane: controller-manager
cluster.x-k8s.io/provider: infrastructure-maas
{{- end }}

{{- define "capmaas.credentials" -}}
{{- .Values.maas.existingSecret | default "capmaas-manager-bootstrap-credentials" -}}
{{- end }}
