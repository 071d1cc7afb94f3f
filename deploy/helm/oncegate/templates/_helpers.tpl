{{- define "oncegate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "oncegate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "oncegate.labels" -}}
{{ include "oncegate.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "oncegate.image" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* What every pod has: the restricted Pod Security Standard, and no token of the cluster. */}}
{{- define "oncegate.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "oncegate.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "oncegate.database" -}}
- { name: DATABASE_URL_FILE, value: /etc/oncegate/secrets/database_url }
- { name: ONCEGATE_SCHEMA, value: {{ .Values.schema | quote }} }
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "oncegate.secrets" -}}
- name: secrets
  secret: { secretName: {{ .Values.existingSecret | quote }}, defaultMode: 0440 }
{{- end }}

{{/* The Deployment of one role; a list of the root, the role and its values. */}}
{{- define "oncegate.deployment" -}}
{{- $root := index . 0 }}{{ $role := index . 1 }}{{ $values := index . 2 -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "oncegate.name" $root }}-{{ $role }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "oncegate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
spec:
  replicas: {{ $values.replicas }}
  # A new pod is ready before an old one stops.
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  selector:
    matchLabels:
      {{- include "oncegate.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $role }}
  template:
    metadata:
      labels:
        {{- include "oncegate.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $role }}
      annotations:
        checksum/config: {{ toYaml $root.Values.config | sha256sum }}
        {{- with $root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "oncegate.pod" $root | nindent 6 }}
      # Longer than drain_delay and drain together.
      terminationGracePeriodSeconds: {{ add $root.Values.drainDelaySeconds $root.Values.drainSeconds 15 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "oncegate.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ $role }}
      containers:
        - name: oncegate
          {{- include "oncegate.image" $root | nindent 10 }}
          args: [serve, --role, {{ $role }}]
          env:
            - { name: ONCEGATE_CONFIG, value: /etc/oncegate/config/oncegate.yml }
            - { name: ONCEGATE_PUBLIC, value: ":8080" }
            # The kubelet asks for the health on the pod's own address.
            - { name: ONCEGATE_ADMIN, value: ":8081" }
            - { name: ONCEGATE_DRAIN_DELAY, value: {{ printf "%vs" $root.Values.drainDelaySeconds | quote }} }
            - { name: ONCEGATE_DRAIN, value: {{ printf "%vs" $root.Values.drainSeconds | quote }} }
            {{- include "oncegate.database" $root | nindent 12 }}
          ports:
            {{- if eq $role "receive" }}
            - { name: deliveries, containerPort: 8080 }
            {{- end }}
            - { name: admin, containerPort: 8081 }
          # A start waits for locked tables for a minute.
          startupProbe:
            httpGet: { path: /healthz, port: admin }
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: { path: /healthz, port: admin }
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          # Twice 2 s is less than drainDelaySeconds.
          readinessProbe:
            httpGet: { path: /readyz, port: admin }
            periodSeconds: 2
            timeoutSeconds: 2
            failureThreshold: 2
          resources: {{- toYaml $values.resources | nindent 12 }}
          {{- include "oncegate.container" $root | nindent 10 }}
          volumeMounts:
            - { name: config, mountPath: /etc/oncegate/config, readOnly: true }
            - { name: secrets, mountPath: /etc/oncegate/secrets, readOnly: true }
      volumes:
        - name: config
          configMap: { name: {{ include "oncegate.name" $root }} }
        {{- include "oncegate.secrets" $root | nindent 8 }}
{{- end }}
